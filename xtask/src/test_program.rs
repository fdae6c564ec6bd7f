//! The test programs of the workspace, as cargo names them when it has built them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step;
use crate::watched;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestProgram {
    /// As `cargo test` names it: "tests/a.rs (target/release/deps/a-1)".
    pub(crate) shown: String,
    /// What selects it among all: "-p x --test a".
    pub(crate) options: String,
    executable: PathBuf,
    /// The directory of its package, in which cargo runs it.
    directory: PathBuf,
}

impl TestProgram {
    /// From one message of `cargo --message-format=json`; nothing if it tells of something else.
    fn of_message(message: &str, root: &Path) -> Option<TestProgram> {
        let (_, profile) = message.split_once("\"profile\":{")?;
        let (profile, _) = profile.split_once('}')?;
        if text_of(message, "reason")? != "compiler-artifact" || !profile.contains("\"test\":true") {
            return None;
        }
        let executable = PathBuf::from(text_of(message, "executable")?);
        let directory = Path::new(text_of(message, "manifest_path")?).parent()?.to_owned();
        let package = package_of(text_of(message, "package_id")?)?;
        let (_, target) = message.split_once("\"target\":{")?;
        let (name, source) = (text_of(target, "name")?, Path::new(text_of(target, "src_path")?));
        let (_, kinds) = target.split_once("\"kind\":[\"")?;
        let (kind, _) = kinds.split_once('"')?;
        let (before, selects) = match kind {
            "test" => ("", format!("--test {name}")),
            "bin" => ("unittests ", format!("--bin {name}")),
            _ => ("unittests ", "--lib".to_owned()),
        };
        let source = source.strip_prefix(&directory).unwrap_or(source).display();
        let place = executable.strip_prefix(root).unwrap_or(&executable).display();
        Some(TestProgram {
            shown: format!("{before}{source} ({place})"),
            options: format!("-p {package} {selects}"),
            executable,
            directory,
        })
    }

    /// What runs it as cargo does.
    pub(crate) fn command(&self) -> Command {
        let mut command =
            step::without_own_package(watched::hearing_interrupts(&self.executable.to_string_lossy()));
        command.current_dir(&self.directory).env("CARGO_MANIFEST_DIR", &self.directory);
        command
    }
}

/// Builds all of them. Cargo has the terminal meanwhile, and a failed build does not count as a test.
pub(crate) fn build(
    root: &Path,
    variables: &[(&str, &str)],
    arguments: &[&str],
) -> Result<Vec<TestProgram>, String> {
    let arguments = [arguments, &["--no-run", "--message-format=json-render-diagnostics"]].concat();
    let messages = step::cargo_and_read(variables, &arguments)?;
    let programs: Vec<_> =
        messages.lines().filter_map(|message| TestProgram::of_message(message, root)).collect();
    if programs.is_empty() {
        return Err(
            "cargo has built no test program, or tells of them in another way than xtask reads".to_owned()
        );
    }
    Ok(programs)
}

/// The text of the first key of that name. Cargo writes no blanks between a key and its value. A text with a backslash is none that is
/// read here.
fn text_of<'a>(json: &'a str, key: &str) -> Option<&'a str> {
    let (_, value) = json.split_once(&format!("\"{key}\":\""))?;
    let (text, _) = value.split_once('"')?;
    (!text.contains('\\')).then_some(text)
}

/// The name in "path+file:///a/b#0.1.0" and in "path+file:///a/b#name@0.1.0".
fn package_of(id: &str) -> Option<&str> {
    let (place, version) = id.rsplit_once('#')?;
    version.split_once('@').map(|(name, _)| name).or_else(|| place.rsplit('/').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, target: &str, profile: &str, executable: &str) -> String {
        format!(
            "{{\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///r/{id}\",\"manifest_path\":\"/r/c/Cargo.toml\",\
             \"target\":{{{target},\"edition\":\"2024\",\"doc\":true,\"doctest\":true,\"test\":true}},\
             \"profile\":{{\"opt_level\":\"3\",\"debuginfo\":0,\"test\":{profile}}},\"features\":[\"full\"],\
             \"filenames\":[\"/r/target/release/deps/x-1\"],\"executable\":{executable},\"fresh\":true}}"
        )
    }

    fn program(id: &str, target: &str) -> Option<TestProgram> {
        let message = message(id, target, "true", "\"/r/target/release/deps/x-1\"");
        TestProgram::of_message(&message, Path::new("/r"))
    }

    #[test]
    fn a_program_is_named_as_by_cargo_and_selected_by_options() {
        let test = "\"kind\":[\"test\"],\"crate_types\":[\"bin\"],\"name\":\"x\",\"src_path\":\"/r/c/tests/x/main.rs\"";
        let test = program("c#0.1.0", test).unwrap();
        assert_eq!(test.shown, "tests/x/main.rs (target/release/deps/x-1)");
        assert_eq!(test.options, "-p c --test x");
        assert_eq!(test.directory, Path::new("/r/c"));
        let lib = "\"kind\":[\"cdylib\",\"lib\"],\"crate_types\":[\"lib\"],\"name\":\"x\",\"src_path\":\"/r/c/src/lib.rs\"";
        let lib = program("c#x-c@0.1.0", lib).unwrap();
        assert_eq!(lib.shown, "unittests src/lib.rs (target/release/deps/x-1)");
        assert_eq!(lib.options, "-p x-c --lib");
        let bin =
            "\"kind\":[\"bin\"],\"crate_types\":[\"bin\"],\"name\":\"y\",\"src_path\":\"/r/c/src/main.rs\"";
        assert_eq!(program("c#0.1.0", bin).unwrap().options, "-p c --bin y");
    }

    #[test]
    fn what_is_no_test_program_is_none() {
        let target =
            "\"kind\":[\"bin\"],\"crate_types\":[\"bin\"],\"name\":\"x\",\"src_path\":\"/r/c/src/main.rs\"";
        let of = |message: &str| TestProgram::of_message(message, Path::new("/r"));
        assert_eq!(of(&message("c#0.1.0", target, "false", "\"/r/target/release/x\"")), None);
        assert_eq!(of(&message("c#0.1.0", target, "true", "null")), None);
        assert_eq!(of("{\"reason\":\"build-finished\",\"success\":true}"), None);
    }
}
