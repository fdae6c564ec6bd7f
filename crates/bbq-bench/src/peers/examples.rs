//! The examples of bbq-listen: http_ok, stream_proxy, dns_cache, greeter. They are built beside the program that is measured.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::peer::{Peer, Transport, configure};
use crate::address;
use crate::load::names::{NAMES, name};
use crate::settings::Settings;

/// Whether they are there. If not, `left_out` says so.
pub(crate) fn are_built(settings: &Settings, left_out: &mut Vec<String>) -> bool {
    let built = program(settings, "http_ok").is_some_and(|path| path.is_file());
    if !built {
        let directory = settings.program.parent().unwrap_or(Path::new("")).join("examples");
        left_out.push(format!(
            "the examples of bbq-listen are not in {}; they are in no package; build them from source: in a clone of bbq, run \
             cargo build --release && cargo build --release -p bbq-listen --examples, and measure with target/release/bbq bench",
            directory.display()
        ));
    }
    built
}

/// The same for an experiment that measures nothing else. If they are not there, `left_out` also says what can be measured `instead`.
pub(crate) fn are_built_or(instead: &str, settings: &Settings, left_out: &mut Vec<String>) -> bool {
    let built = are_built(settings, left_out);
    if !built {
        left_out.push(format!("without the examples: {instead}"));
    }
    built
}

fn program(settings: &Settings, example: &str) -> Option<PathBuf> {
    Some(settings.program.parent()?.join("examples").join(example))
}

/// Starts one. dns_cache gets a zone of all the names that are asked for, and greeter its logs, in the directory.
pub(crate) fn start(
    settings: &Settings,
    example: &str,
    distribution: &str,
    options: &[&str],
) -> anyhow::Result<Peer> {
    let address = address::free()?;
    let mut command = Command::new(program(settings, example).context("the program has no directory")?);
    let (scheme, transport) =
        if example == "dns_cache" { ("udp", Transport::Udp) } else { ("tcp", Transport::Tcp) };
    command.args(["--listen", &format!("{scheme}://{address}"), "--distribution", distribution]);
    command.args(["--workers", &settings.workers.to_string()]).args(options);
    match example {
        "dns_cache" => {
            let mut lines = String::new();
            for index in 0..NAMES {
                writeln!(lines, "{}. 3600 IN A 192.0.2.1", name(index))?;
            }
            command.arg("--zone").arg(configure(settings, "bench.zone", &lines)?);
        }
        "greeter" => drop(command.arg("--logs").arg(&settings.directory)),
        _ => {}
    }
    Peer::start(example, &command, settings, address, transport)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_examples_a_user_of_a_package_reads_where_they_are_looked_for_and_what_to_do() {
        let settings = Settings { program: "/nowhere/bin/bbq".into(), ..Settings::blank() };
        let mut left_out = Vec::new();
        assert!(!are_built_or("bbq bench listen does something like it", &settings, &mut left_out));
        let [missing, instead] = &left_out[..] else { panic!("{left_out:?}") };
        for part in ["/nowhere/bin/examples", "in no package", "from source", "target/release/bbq bench"] {
            assert!(missing.contains(part), "{part:?} is not in {missing:?}");
        }
        assert_eq!(instead, "without the examples: bbq bench listen does something like it");
    }
}
