//! A command that acknowledges each line.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::destination::{Destination, Fault, Promise, Refused};
use crate::support::Server;

/// A file with the name of a fault in its directory switches that fault on.
const SCRIPT: &str = r#"
import os, sys, time
place = sys.argv[1]
def has(fault):
    return os.path.exists(f"{place}/{fault}")
received = open(f"{place}/received", "a")
for number, line in enumerate(sys.stdin, 1):
    while has("hangs"):
        time.sleep(0.01)
    if has("is-slow"):
        time.sleep(0.005)
    if has("refuses") or (line.startswith("bad ") and not has("is-mended")):
        sys.exit("cannot store this")
    received.write(line)
    received.flush()
    if has("dies"):
        os.kill(os.getpid(), 9)
    print(number, flush=True)
"#;

struct Command {
    place: TempDir,
}

pub(super) fn exec(_: Fault, test: &mut dyn FnMut(&mut dyn Destination)) {
    let place = tempfile::tempdir().expect("a directory");
    fs::write(place.path().join("script"), SCRIPT).expect("a file");
    test(&mut Command { place });
}

impl Command {
    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }
}

fn create(path: &Path) {
    fs::write(path, "").expect("a file");
}

fn remove(path: &Path) {
    fs::remove_file(path).expect("it is there");
}

impl Destination for Command {
    fn spec(&self) -> String {
        format!("exec:exec python3 {} {}?ack=line", self.at("script").display(), self.place.path().display())
    }

    fn promise(&self) -> Promise {
        Promise::AtLeastOnce
    }

    fn received(&mut self) -> Vec<String> {
        vec![fs::read_to_string(self.at("received")).expect("text")]
    }

    fn begin(&mut self, fault: Fault, _: Option<&Server<'_>>) {
        match fault {
            Fault::Slow => create(&self.at("is-slow")),
            Fault::Hanging => create(&self.at("hangs")),
            Fault::Resetting => create(&self.at("dies")),
            Fault::RefusingAll => create(&self.at("refuses")),
            Fault::Away => {
                // One that runs ends with its next line.
                create(&self.at("dies"));
                fs::rename(self.at("script"), self.at("moved")).expect("it is there");
            }
            _ => panic!("{fault:?}"),
        }
    }

    fn end(&mut self, fault: Fault, _: &Server<'_>) {
        match fault {
            Fault::Slow => remove(&self.at("is-slow")),
            Fault::Hanging => remove(&self.at("hangs")),
            Fault::Resetting => remove(&self.at("dies")),
            Fault::RefusingAll => remove(&self.at("refuses")),
            Fault::RefusingOne => create(&self.at("is-mended")),
            Fault::Away => {
                remove(&self.at("dies"));
                fs::rename(self.at("moved"), self.at("script")).expect("it is there");
            }
            _ => panic!("{fault:?}"),
        }
    }

    fn begins(&self, fault: Fault) -> (bool, bool) {
        (fault != Fault::Hanging, true)
    }

    fn says(&self, fault: Fault) -> &'static str {
        match fault {
            Fault::Hanging => "acknowledged nothing for 30 s",
            Fault::Resetting => "signal 9",
            Fault::RefusingAll | Fault::RefusingOne => "cannot store this",
            Fault::Away => "exit code 2",
            _ => "",
        }
    }

    /// Only the command knows what a message is worth: a message is a dead letter after a minute, and this command is mended before.
    fn refused(&self, fault: Fault) -> Refused {
        if fault == Fault::RefusingOne { Refused::Wait } else { Refused::None }
    }
}
