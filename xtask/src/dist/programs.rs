//! What packages contain: the program and the library without symbols, these symbols, man pages and completions.

use std::process::Command;

use super::disk::{create, text, write};
use super::libraries;
use super::material::Material;
use crate::step;

const SHELLS: [&str; 3] = ["bash", "fish", "zsh"];
const GZIP: &str = "gzip --best --no-name \"$0\"/*";

pub(super) fn build(material: &Material) -> Result<(), String> {
    let features = ["--features", step::EVERY_SINK];
    step::cargo(
        &[],
        &[&["build", "--release", "--locked", "-p", "bbq", "-p", "bbq-c"][..], &features].concat(),
    )?;
    let stage = material.stage();
    let program = text(&material.built("bbq"));
    strip(material, &program, &text(&stage.join("bbq")))?;
    let (man, completions) = (stage.join("man"), stage.join("completions"));
    create(&man)?;
    create(&completions)?;
    step::run(&[], &program, &["manual", &text(&man)])?;
    step::run(&[], "sh", &["-c", GZIP, &text(&man)])?;
    for shell in SHELLS {
        let script = Command::new(&program).args(["completions", shell]).output();
        let script = script.map_err(|error| format!("cannot run {program}: {error}"))?;
        write(&completions.join(format!("bbq.{shell}")), &String::from_utf8_lossy(&script.stdout))?;
    }
    libraries::stage(material)
}

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
