//! moto, which imitates S3, for the tests of the sink that writes objects. It is in an environment of its own in target/moto.
//!
//! Of what can be installed here it is the one that refuses to write an object twice (If-None-Match).

use std::path::Path;

use crate::step;

/// boto3, with which the tests look into buckets, comes with it.
const PACKAGE: &str = "moto[server]>=5.2,<6";

/// Installs it if it is not there.
pub(crate) fn provide(root: &Path) -> Result<(), String> {
    let environment = root.join(step::target_directory()).join("moto");
    if environment.join("bin/moto_server").exists() {
        return Ok(());
    }
    let environment = environment.to_string_lossy();
    let python = format!("{environment}/bin/python");
    let installed = step::run(&[], "python3", &["-m", "venv", &environment])
        .and_then(|()| step::run(&[], &python, &["-m", "pip", "install", "--quiet", PACKAGE]));
    installed.map_err(|problem| {
        format!(
            "{problem}\nthe tests need {PACKAGE}, and pip could not get it: make sure that pip reaches a package index (PIP_INDEX_URL, \
             PIP_PROXY)"
        )
    })
}
