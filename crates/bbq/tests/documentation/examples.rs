//! Every configuration that a page shows is one, whether as TOML or as options of `bbq serve`. The files that it names are put in the place of
//! those in /etc/bbq.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::pages::{self, BBQ, lines};

/// How an example begins that has no fence.
const BEGINNINGS: [&str; 5] = ["[[sink]]", "[[listen]]", "[spool]", "listen = ", "sink = "];

/// A file of credentials of NATS. The seed is the one that the documentation of NATS shows; nobody is let in with it.
const NATS_CREDENTIALS: &str = "-----BEGIN NATS USER JWT-----\nheader.claims.signature\n------END NATS USER JWT------\n\n\
    -----BEGIN USER NKEY SEED-----\nSUANQDPB2RUOE4ETUA26CNX7FUKE5ZZKFCQIIW63OX225F2CO7UEXTM7ZY\n------END USER NKEY SEED------\n";

/// The examples of a page, as TOML.
fn examples(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let fenced = page.split("\n```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    found.extend(fenced.map(str::to_owned));
    let mut block: Option<String> = None;
    let mut is_fenced = false;
    for line in page.lines().chain([""]) {
        let text = line.trim_start();
        is_fenced ^= text.starts_with("```");
        let is_indented = !is_fenced && line.starts_with("    ");
        match &mut block {
            Some(begun) if is_indented => *begun = format!("{begun}{text}\n"),
            Some(_) => found.extend(block.take()),
            None if is_indented && BEGINNINGS.iter().any(|begin| text.starts_with(begin)) => {
                block = Some(format!("{text}\n"));
            }
            None => {}
        }
    }
    found.extend(lines(page).iter().filter(|line| line.is_code).filter_map(|line| of_options(line.text)));
    found
}

/// What `--listen` and `--sink` of a line name.
fn of_options(line: &str) -> Option<String> {
    let mut toml = String::new();
    for key in ["listen", "sink"] {
        let specs: Vec<String> = line
            .split(&format!("--{key} "))
            .skip(1)
            .filter_map(|rest| match rest.strip_prefix('\'') {
                Some(quoted) => quoted.split('\'').next(),
                None => rest.split_whitespace().next(),
            })
            // Not the name of a value, such as SPEC.
            .filter(|spec| spec.contains(':'))
            .map(|spec| format!("{spec:?}"))
            .collect();
        if !specs.is_empty() {
            toml += &format!("{key} = [{}]\n", specs.join(", "));
        }
    }
    (line.contains("bbq serve ") && !toml.is_empty()).then_some(toml)
}

/// Writes the files that an example names, and returns it with their paths.
fn with_files(example: &str, directory: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(["logs.example".to_owned()]).expect("a certificate");
    // Those that stand in the directory where bbq is started.
    for (name, text) in [
        ("ca.pem", made.cert.pem()),
        ("localhost.pem", made.cert.pem()),
        ("localhost.key", made.signing_key.serialize_pem()),
    ] {
        fs::write(directory.join(name), text).expect("a file");
    }
    for path in example.split("/etc/bbq/").skip(1) {
        let name: String = path
            .chars()
            .take_while(|character| character.is_ascii_alphanumeric() || "-._".contains(*character))
            .collect();
        let text = match name.as_str() {
            "key.pem" => made.signing_key.serialize_pem(),
            name if name.ends_with(".key") && !name.starts_with("azure") => made.signing_key.serialize_pem(),
            name if name.ends_with(".pem") => made.cert.pem(),
            name if name.ends_with(".creds") => NATS_CREDENTIALS.to_owned(),
            name if name.ends_with(".headers") => "X-Scope-OrgID: tenant\n".to_owned(),
            name if name.starts_with("azure") => "a2V5a2V5a2V5a2V5\n".to_owned(),
            _ => "correct-horse-battery\n".to_owned(),
        };
        fs::write(directory.join(name), text).expect("a file");
    }
    example.replace("/etc/bbq", directory.to_str().expect("text"))
}

#[test]
fn every_configuration_of_a_page_is_one() {
    let (mut checked, mut mistakes) = (0, Vec::new());
    for (page, text) in pages::all() {
        for example in examples(&text) {
            let directory = TempDir::new().unwrap();
            let file = directory.path().join("bbq.toml");
            fs::write(&file, with_files(&example, directory.path())).expect("a file");
            let mut check = Command::new(BBQ);
            let check = check
                .arg("check")
                .arg(&file)
                .current_dir(directory.path())
                .env("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=KEY");
            let output = check.output().expect("it runs");
            checked += 1;
            if !output.status.success() {
                mistakes.push(format!("{page}:\n{example}\n{}", String::from_utf8_lossy(&output.stderr)));
            }
        }
    }
    assert!(checked > 50, "only {checked} configurations were found");
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}
