//! Test programs of several files: a file that no `mod` names is not compiled, and its tests do not run.

/// The files in the directory of `main`, the root file of a test program, that its `text` does not declare.
pub(super) fn undeclared<'a>(main: &str, text: &str, files: &'a [String]) -> Vec<&'a str> {
    let Some(directory) = main.strip_suffix("main.rs") else { return Vec::new() };
    let is_program = directory.trim_end_matches('/').rsplit('/').nth(1) == Some("tests");
    let undeclared = |file: &&'a String| {
        let module = file.strip_prefix(directory).and_then(|name| name.strip_suffix(".rs"));
        module.is_some_and(|module| {
            let declaration = format!("mod {module};");
            module != "main" && !module.contains('/') && !text.lines().any(|line| line.trim() == declaration)
        })
    };
    files.iter().filter(|_| is_program).filter(undeclared).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_its_program_does_not_declare_is_found() {
        let files =
            ["a/tests/b/main.rs", "a/tests/b/c.rs", "a/tests/b/d.rs", "a/tests/e.rs", "a/tests/b/f/g.rs"];
        let files = files.map(str::to_owned);
        assert_eq!(undeclared("a/tests/b/main.rs", "//! B.\n\nmod c;\n", &files), ["a/tests/b/d.rs"]);
        assert_eq!(undeclared("a/tests/b/main.rs", "mod c;\nmod d;\n", &files), Vec::<&str>::new());
        assert_eq!(undeclared("a/tests/e.rs", "", &files), Vec::<&str>::new());
        assert_eq!(undeclared("a/src/main.rs", "", &["a/src/c.rs".to_owned()]), Vec::<&str>::new());
    }
}
