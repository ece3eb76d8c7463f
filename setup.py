"""Packaging: the folders at the top of the repository become one import name, ``warpdrive``."""

from setuptools import find_packages, setup

FOLDERS = {
    "warpdrive": "warpdrive",
    "warpdrive.envs": "envs",
    "warpdrive.training": "training",
    "warpdrive.cuda_src": "cuda_src",
}

setup(
    package_dir=FOLDERS,
    packages=[
        package
        for name, folder in FOLDERS.items()
        for package in [name, *(f"{name}.{sub}" for sub in find_packages(folder))]
    ],
    package_data={
        "": [
            *(
                "py.typed",
                "**/*.yaml",
                "**/*.json",
                "**/*.html",
                "**/*.css",
                "**/*.js",
                "**/*.cu",
                "**/*.cuh",
                "**/*.h",
                "nvrtc/*",
            ),
            *("templates/**/*.py", "**/*.md"),
        ],
    },
)
