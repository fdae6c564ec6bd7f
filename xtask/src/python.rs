//! The tests of the Python package, run by pytest on the wheel that users get, in an environment of its own.
//!
//! Everything is under target/python: a second run installs nothing and builds what has changed. Cargo's directory is its own,
//! too, as maturin's variables would have pyo3 built anew there and back.

use std::env;
use std::path::{Path, PathBuf};

use crate::step;

/// As bindings/python/pyproject.toml has them; gunicorn is a program whose logs must arrive.
const TOOLS: [&str; 3] = ["maturin>=1.16,<2", "pytest>=9,<10", "gunicorn>=23,<26"];
const PACKAGE: &str = "bindings/python";

/// Needs the program `bbq` of the release profile.
pub(crate) fn test(root: &Path) -> Result<(), String> {
    let target =
        root.join(env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from));
    let (environment, wheels) = (target.join("python/venv"), target.join("python/wheels"));
    let python = environment.join("bin/python");
    let [program, environment, wheels, build] =
        [&target.join("release/bbq"), &environment, &wheels, &target.join("python/build")]
            .map(|path| text(path));
    if !python.exists() {
        step::run(&[], "python3", &["-m", "venv", &environment])?;
    }
    let python = text(&python);
    step::run(&[], &python, &[&["-m", "pip", "install", "--quiet"][..], &TOOLS].concat()).map_err(|problem| {
        format!(
            "{problem}\nthe Python tests need {}, and pip could not get them: see that it reaches a package index (PIP_INDEX_URL, \
             PIP_PROXY), or install them into {environment} from wheels",
            TOOLS.join(" and ")
        )
    })?;
    let manifest = format!("{PACKAGE}/Cargo.toml");
    // The wheel is for this machine: no look at how old a Linux would do.
    let wheel = [
        "build",
        "--release",
        "--quiet",
        "--compatibility",
        "linux",
        "--manifest-path",
        &manifest,
        "--out",
        &wheels,
    ];
    step::run(&[("CARGO_TARGET_DIR", &build)], &python, &[&["-m", "maturin"][..], &wheel].concat())?;
    let from =
        ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--force-reinstall", "--find-links"];
    step::run(&[], &python, &[&from[..], &[&wheels, "bbq"]].concat())?;
    step::run(&[("BBQ", &program)], &python, &["-m", "pytest", "--quiet", "-p", "no:cacheprovider", PACKAGE])
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
