//! What judges the Helm chart and the manifests of the page on Kubernetes: Helm, and the schemas of Kubernetes's objects, which a Python
//! package has.

use std::path::Path;

use crate::go_server::HELM;
use crate::step;

const TOOLS: [&str; 2] = ["kubernetes-validate>=1.37,<2", "pyyaml>=6,<7"];

/// Puts both into target.
pub(crate) fn provide(root: &Path) -> Result<(), String> {
    HELM.provide(root)?;
    let environment = root.join(step::target_directory()).join("kubernetes");
    let installed = environment.join("installed");
    if std::fs::read_to_string(&installed).is_ok_and(|tools| tools == TOOLS.join("\n")) {
        return Ok(());
    }
    let place = environment.to_string_lossy();
    let python = format!("{place}/bin/python");
    step::run(&[], "python3", &["-m", "venv", &place])
        .and_then(|()| step::run(&[], &python, &[&["-m", "pip", "install", "--quiet"][..], &TOOLS].concat()))
        .map_err(|problem| {
            format!(
                "{problem}\nthe tests of the Helm chart need {}, and pip could not get them: make sure that pip reaches a package index \
                 (PIP_INDEX_URL, PIP_PROXY)",
                TOOLS.join(" and ")
            )
        })?;
    std::fs::write(&installed, TOOLS.join("\n"))
        .map_err(|error| format!("cannot write {}: {error}", installed.display()))
}
