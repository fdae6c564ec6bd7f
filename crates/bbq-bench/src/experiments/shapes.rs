//! HTTP under loads of other shapes than the usual one: few and many threads, each with few and many connections.

use super::http::{CASES, section};
use super::listen::Shape;
use crate::peers;
use crate::plan::Plan;
use crate::section::Section;
use crate::settings::Settings;

/// Threads of the load, as of wrk's -t.
const THREADS: [usize; 3] = [1, 2, 4];
/// Connections of all threads, as of wrk's -c.
const CONNECTIONS: [usize; 3] = [16, 64, 512];

pub(crate) fn plan(settings: &Settings) -> anyhow::Result<Plan> {
    let mut left_out = Vec::new();
    let beside_nginx = settings.peers && peers::installed("nginx", &mut left_out);
    let mut sections = Vec::new();
    for (words, close) in CASES {
        for threads in THREADS {
            for connections in CONNECTIONS {
                let shape = Shape { threads: Some(threads), connections };
                let s = if threads == 1 { "" } else { "s" };
                let title = format!("{words}: {threads} thread{s}, {connections} connections");
                sections.push(Section { title, ..section(close, shape, beside_nginx) });
            }
        }
    }
    Ok(Plan { left_out, ..Plan::of(sections) })
}
