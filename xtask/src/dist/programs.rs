//! What packages contain: the program and the library without symbols, these symbols, man pages and completions.

use std::process::Command;

use super::disk::{create, text, write};
use super::libraries;
use super::material::Material;
use super::symbols;
use crate::step;

const SHELLS: [&str; 3] = ["bash", "fish", "zsh"];
const GZIP: &str = "gzip --best --no-name \"$0\"/*";

pub(super) fn build(material: &Material) -> Result<(), String> {
    let features = ["--features", step::EVERY_SINK];
    step::cargo(
        &step::WITH_LINES,
        &[&["build", "--release", "--locked", "-p", step::PACKAGE, "-p", "bbq-c"][..], &features].concat(),
    )?;
    stage_program(material)?;
    libraries::stage(material)
}

/// The program without symbols, its man pages and completions, from what is built.
pub(super) fn stage_program(material: &Material) -> Result<(), String> {
    let stage = material.stage();
    let program = step::built(step::PROGRAM)?;
    symbols::strip(material, &program, &text(&stage.join("bbq")))?;
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
    Ok(())
}
