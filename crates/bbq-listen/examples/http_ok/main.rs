//! Seed 003's web server: answers every GET and HEAD with `OK`, or with a file. HTTP/1.1, connections stay open.
//!
//!     cargo run --release -p bbq-listen --example http_ok -- --listen 127.0.0.1:8080 --distribution shared
//!     curl http://127.0.0.1:8080/
//!
//! With `--allow-block`, `GET /block/500` blocks the whole worker for 500 ms: to show what happens to the connections behind it.
//! A silent connection is kept for as long as there are descriptors; there is no time-out.

#[path = "../common/block.rs"]
mod block;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/conversation.rs"]
mod conversation;
#[path = "../common/http.rs"]
mod http;
#[path = "../common/site.rs"]
mod site;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use bbq_listen::{AsyncListener, Group};
use clap::Parser;
use site::Site;

/// The page is held in memory, and copied for each answer.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Answers OK.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: common::Options,
    /// Answer with this file instead of OK; at most 1 MiB
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Let GET /block/MS block the worker that meets it for MS milliseconds, at most 10 s
    #[arg(long)]
    allow_block: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let page = arguments.file.as_deref().map_or_else(|| Ok(b"OK".to_vec()), read_page)?;
    let group = arguments.options.open()?;
    common::serve(&[&group], |worker, stop| work(&group, worker, stop, &page, arguments.allow_block))
}

fn read_page(path: &Path) -> anyhow::Result<Vec<u8>> {
    let size = std::fs::metadata(path).with_context(|| format!("--file {}", path.display()))?.len();
    anyhow::ensure!(
        size <= FILE_BYTES_MAX,
        "--file {}: {size} bytes, at most {FILE_BYTES_MAX}",
        path.display()
    );
    std::fs::read(path).with_context(|| format!("--file {}", path.display()))
}

async fn work(
    group: &Group,
    worker: usize,
    stop: common::Stop,
    page: &[u8],
    allow_block: bool,
) -> anyhow::Result<String> {
    let listener = AsyncListener::new(group.worker_listener(worker)?)?;
    let site = Arc::new(Site::new(page, allow_block));
    let mut connections = 0_u64;
    common::accept(listener, stop, |accepted| {
        connections += 1;
        conversation::begin(accepted.stream, &site);
    })
    .await?;
    conversation::last_turns().await;
    Ok(format!("{connections} connections, {} requests", site.requests()))
}
