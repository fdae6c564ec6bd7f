//! Apache Kafka's broker, for the tests of the sink that writes to it.
//!
//! Its jars come from Maven into target/kafka, where the tests look for them. Beside them is an archive of the classes that a broker
//! loads, with which a broker starts in half of the processor time; the tests start some hundred brokers and tools.

use std::fs;
use std::path::Path;

use crate::step;

/// Which jars: also those of its command line tools.
const POM: &str = include_str!("kafka.pom.xml");
/// Starts a broker once.
const ARCHIVE: &str = include_str!("kafka_classes.sh");

/// Gets the jars if they are not there.
pub(crate) fn provide(root: &Path) -> Result<(), String> {
    let directory = root.join(step::target_directory()).join("kafka");
    let (pom, jars) = (directory.join("pom.xml"), directory.join("jars"));
    let got = directory.join("got.xml");
    let wanted = format!("{POM}{ARCHIVE}");
    if fs::read_to_string(&got).is_ok_and(|got| got == wanted) {
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("cannot write to {}: {error}", directory.display());
    fs::create_dir_all(&directory).map_err(failed)?;
    // Another version's jars may be there.
    if jars.exists() {
        fs::remove_dir_all(&jars).map_err(failed)?;
    }
    fs::write(&pom, POM).map_err(failed)?;
    // Everything of Maven stays in the target directory, too.
    let repository = directory.join("repository");
    let arguments = [
        "--quiet",
        "--batch-mode",
        &format!("--file={}", pom.display()),
        &format!("-Dmaven.repo.local={}", repository.display()),
        &format!("-DoutputDirectory={}", jars.display()),
        "dependency:copy-dependencies",
    ];
    step::run(&[], "mvn", &arguments).map_err(|problem| {
        format!("{problem}\nthe tests need the jars of xtask/src/kafka.pom.xml: make sure that Maven reaches a repository")
    })?;
    // They are copied.
    fs::remove_dir_all(&repository).map_err(failed)?;
    // Java takes an archive only for the path that it was made for.
    let directory_shown = fs::canonicalize(&directory).map_err(failed)?.display().to_string();
    if let Err(problem) = step::run(&[], "timeout", &["120", "bash", "-c", ARCHIVE, "bash", &directory_shown])
    {
        eprintln!("xtask: {problem}; brokers start without the archive, and more slowly");
    }
    fs::write(&got, wanted).map_err(failed)
}
