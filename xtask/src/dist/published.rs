//! The crates of the workspace that are published. What their packages lack shows here, and not on the day of a release.

use std::fs;

use super::disk::text;
use super::material::Material;
use crate::step;

/// The names of the packages in `crates` without `publish = false`.
pub(crate) fn names() -> Result<Vec<String>, String> {
    let entries = fs::read_dir("crates").map_err(|error| format!("cannot read crates: {error}"))?;
    let mut names = Vec::new();
    for entry in entries.flatten() {
        let manifest = super::disk::text_of(&entry.path().join("Cargo.toml"))?;
        if !manifest.lines().any(|line| line == "publish = false") {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// `cargo package` for all of them, with further options.
pub(crate) fn pack(variables: &[(&str, &str)], options: &[&str]) -> Result<(), String> {
    let names = names()?;
    let packages = names.iter().flat_map(|name| ["--package", name.as_str()]);
    let arguments: Vec<&str> = ["package", "--locked", "--allow-dirty"]
        .into_iter()
        .chain(options.iter().copied())
        .chain(packages)
        .collect();
    step::cargo(variables, &arguments)
}

/// Builds what is in the packages, as `cargo publish` would.
pub(super) fn make(material: &Material) -> Result<(), String> {
    let build = material.beside("crates");
    if build.exists() {
        // Cargo takes a crate that it has built before for this one, as both have the same version.
        fs::remove_dir_all(&build).map_err(|error| format!("cannot empty {}: {error}", build.display()))?;
    }
    let build = text(&build);
    pack(&[("CARGO_TARGET_DIR", build.as_str())], &[])?;
    let copy = "cp \"$0\"/package/*.crate \"$1\"";
    step::run(&[], "sh", &["-c", copy, &build, &text(material.directory())])
}
