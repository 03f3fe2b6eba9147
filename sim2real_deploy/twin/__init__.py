"""The twin: a MuJoCo robot that speaks the vendor wire protocol, on DDS or in process."""
