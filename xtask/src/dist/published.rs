//! The crates of the workspace that are published. What their packages lack shows here, and not on the day of a release.

use std::fs;

use super::disk::text;
use super::material::Material;
use crate::step;

/// The folders of crates.
const FOLDERS: [&str; 2] = ["crates", "crates/sinks"];

/// The names of the packages without `publish = false`.
pub(crate) fn names() -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for folder in FOLDERS {
        let entries = fs::read_dir(folder).map_err(|error| format!("cannot read {folder}: {error}"))?;
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| !path.ends_with("sinks")) {
            let manifest = super::disk::text_of(&path.join("Cargo.toml"))?;
            let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
            let Some(name) = name else { return Err(format!("{} has no name", path.display())) };
            if !manifest.lines().any(|line| line == "publish = false") {
                names.push(name.to_owned());
            }
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
