//! The libraries with which Python programs send to Elasticsearch, Loki, Splunk and Graylog: real senders for the pages on them.

use std::path::Path;

use crate::step;

const LIBRARIES: [&str; 5] = [
    "elasticsearch>=8,<9",
    "python-logging-loki>=0.3,<1",
    "splunk-handler>=3,<4",
    "pygelf>=0.4,<1",
    "graypy>=2.1,<3",
];

/// Puts them into an environment in target.
pub(crate) fn provide(root: &Path) -> Result<(), String> {
    let environment = root.join(step::target_directory()).join("libraries");
    let installed = environment.join("installed");
    if std::fs::read_to_string(&installed).is_ok_and(|known| known == LIBRARIES.join("\n")) {
        return Ok(());
    }
    let place = environment.to_string_lossy();
    let python = format!("{place}/bin/python");
    step::run(&[], "python3", &["-m", "venv", &place])
        .and_then(|()| step::run(&[], &python, &[&["-m", "pip", "install", "--quiet"][..], &LIBRARIES].concat()))
        .map_err(|problem| {
            format!(
                "{problem}\nthe tests of other systems' senders need {}, and pip could not get them: make sure that pip reaches a package \
                 index (PIP_INDEX_URL, PIP_PROXY)",
                LIBRARIES.join(" and ")
            )
        })?;
    std::fs::write(&installed, LIBRARIES.join("\n"))
        .map_err(|error| format!("cannot write {}: {error}", installed.display()))
}
