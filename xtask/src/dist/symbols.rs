//! Programs without symbols, and the symbols beside them.

use std::process::Command;

use super::disk::{create, text};
use super::material::Material;
use crate::step;

/// Copies a program without its symbols, and these into the directory of symbols, by the number of the build.
pub(super) fn strip(material: &Material, from: &str, to: &str) -> Result<(), String> {
    let id = build_id(from)?;
    let (folder, name) = id.split_at(2);
    let folder = material.stage().join("debug").join(folder);
    create(&folder)?;
    let symbols = text(&folder.join(format!("{name}.debug")));
    step::run(&[], "objcopy", &["--only-keep-debug", "--compress-debug-sections", from, &symbols])?;
    step::run(&[], "objcopy", &["--strip-all", from, to])
}

fn build_id(program: &str) -> Result<String, String> {
    let notes = Command::new("readelf").args(["--notes", program]).output();
    let notes = notes.map_err(|error| format!("cannot run readelf: {error}"))?;
    let notes = String::from_utf8_lossy(&notes.stdout).into_owned();
    let id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
    id.map(str::to_owned).ok_or_else(|| format!("{program} has no build id, by which its symbols are found"))
}
