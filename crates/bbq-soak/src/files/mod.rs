//! Files that are written and rotated, their reader, and a server behind it:
//!
//! ```text
//! numbered lines -> files --> edge --bbq:--> centre -> a file
//!                        \--> other programs, each -> a file
//! ```
//!
//! One thread follows a script: it writes lines, rotates files, and kills the readers and the centre. The script depends on the seed and on
//! how many lines are written, and all programs read the same files. Only what cannot be promised waits: a file is deleted when its reader
//! has it open, and a reader is killed when it has no deleted file open.
//!
//! A run is a series of rounds. At the end of each, everything that was written must have come to the end. Then the readers are killed, what
//! rotations have set aside is deleted, and files that were read are deleted and written anew before the readers start again: mostly with
//! the same inodes.

mod bbq;
mod beside;
mod books;
mod kind;
mod log;
pub(crate) mod options;
mod otelcol;
mod report;
mod rsyslog;
mod script;
mod tool;

use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::Result;

use crate::random::Random;
use crate::round::{free_ports, prepare, program};
use kind::Kind;
use options::{Beside, FilesOptions};
use script::Script;
use tool::Tool;

/// Listeners and admins of both servers.
const PORTS: usize = 4;

/// Runs the script. Returns whether bbq has kept all promises.
pub(crate) fn run(options: &FilesOptions) -> Result<bool> {
    let directory = prepare(&options.directory)?;
    let random = Random::new(options.seed);
    let (ports, _reserved) = free_ports::<PORTS>(random.fork(1))?;
    let logs = directory.join("logs");
    for kind in Kind::ALL {
        fs::create_dir_all(logs.join(kind.name()))?;
    }
    let tools = tools(options, &directory, &logs, ports)?;
    println!("files: {}", options.command());
    let begin = Instant::now();
    let mut script = Script::new(options, &logs, tools, random)?;
    let done = script.run();
    let clean = report::print(&mut script, &done, begin.elapsed());
    drop(script);
    if clean && !options.keep {
        fs::remove_dir_all(&directory)?;
    } else {
        println!("files: everything is kept in {}", directory.display());
    }
    Ok(clean)
}

/// The first one is bbq.
fn tools(
    options: &FilesOptions,
    directory: &Path,
    logs: &Path,
    ports: [u16; PORTS],
) -> Result<Vec<Box<dyn Tool>>> {
    let bbq = bbq::Bbq::new(&program(&options.bbq)?, directory, logs, ports)?;
    let mut tools: Vec<Box<dyn Tool>> = vec![Box::new(bbq)];
    for beside in &options.beside {
        match beside {
            Beside::Rsyslog => {
                for care in [rsyslog::Care::Usual, rsyslog::Care::Most] {
                    tools.push(Box::new(rsyslog::new(&options.rsyslog, directory, logs, care)?));
                }
            }
            Beside::Otelcol => tools.push(Box::new(otelcol::new(&options.otelcol, directory, logs)?)),
        }
    }
    Ok(tools)
}
