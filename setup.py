"""The ament_python build: colcon and pip both read this file."""

from pathlib import Path

from setuptools import find_packages, setup

NAME = "sim2real_deploy"
ROOT = Path(__file__).parent


def data_tree(folder: str) -> list[tuple[str, list[str]]]:
    """Every file below a folder, installed under share/<package> with its path kept."""
    files = [p.relative_to(ROOT) for p in sorted((ROOT / folder).rglob("*")) if p.is_file()]
    return [(f"share/{NAME}/{file.parent}", [str(file)]) for file in files]


DOCS = ["mkdocs-material"]
# The last ones, readers of others and a browser, prove that bags and reports open elsewhere.
TESTS = ["pytest", "pytest-rerunfailures", "pytest-timeout", "pytest-xdist", "hypothesis", "onnx",
         "rosbags", "mcap-ros2-support", "pyarrow", "playwright"]  # fmt: skip

setup(
    name=NAME,
    version="0.1.0",
    description="Deploy a walking policy trained in simulation onto a legged robot",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=find_packages(include=[NAME, f"{NAME}.*"]),
    package_data={
        NAME: ["twin/assets/*.xml", "bench/*.c", "wire/*.json", "analysis/assets/*", "py.typed"]
    },
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml", "plugin.xml"]),
        # Where `ros2 run` and launch_ros look; the command itself goes to bin/, which is on PATH.
        (f"lib/{NAME}", sorted(str(p.relative_to(ROOT)) for p in (ROOT / "scripts").iterdir())),
        *data_tree("launch"),
        *data_tree("config"),
        *data_tree("policies"),
    ],
    install_requires=[
        "setuptools",
        "numpy",
        "pyyaml",
        "pydantic>=2",
        "typer>=0.12",
        "rich",
        "psutil",
        "fastcrc",
        # Only for its libddsc, where nothing else brings one; a system's or ROS 2's will do.
        'cyclonedds; platform_machine == "x86_64" and python_version < "3.14"',
        "onnxruntime",
        "mcap",
    ],
    extras_require={
        "ros": ["ros-rclpy[fastrtps]", "ros-common-interfaces"],  # where no ROS 2 is installed
        "sim": ["mujoco", "numba", "imageio[ffmpeg]"],
        "dashboard": ["viser", "mujoco"],
        "analysis": ["pyarrow"],  # export to Parquet
        "drake": ["drake"],  # the second engine; 42 MB, never on the robot
        "ray": ["ray"],  # the gate on a cluster
        "docs": DOCS,  # `make docs`
        "train": ["torch==2.13.0", "onnx", "matplotlib", "tensorboard"],
        "test": TESTS,
        "dev": [
            *TESTS,
            "ruff",
            "mypy",
            "import-linter",
            "colcon-ros",
            "types-PyYAML",
            'drake; platform_machine == "x86_64"',
            "ray",
            "viser",
            *DOCS,
        ],
    },
    entry_points={"console_scripts": ["sim2real = sim2real_deploy.cli:main"]},
)
