//! Seed 003's web server: answers every GET and HEAD with `OK`, or with a file. HTTP/1.1, connections stay open.
//!
//!     cargo run --release -p bbq-listen --example http_ok -- --listen 127.0.0.1:8080 --distribution shared
//!     curl http://127.0.0.1:8080/
//!
//! With `--allow-block`, `GET /block/500` blocks the whole worker for 500 ms. There is no time-out for silent connections.

#[path = "../common/block.rs"]
mod block;
#[path = "../common/conversation.rs"]
mod conversation;
#[path = "../common/front_door.rs"]
mod front_door;
#[path = "../common/http.rs"]
mod http;
#[path = "../common/site.rs"]
mod site;

use std::io::{Read, Result};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

use anyhow::Context;
use bbq_listen::{ACCEPTS_PER_BATCH_MAX, Accepted, AsyncListener, TokioRunner};
use clap::Parser;
use site::Site;

/// The page is held in memory, and copied for each answer.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Answers OK.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: front_door::Options,
    /// Answer with this file instead of OK; at most 1 MiB
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Let GET /block/MS block the worker that meets it for MS milliseconds, at most 10 s
    #[arg(long)]
    allow_block: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let page = arguments.file.as_deref().map_or_else(|| Ok(b"OK".to_vec()), read_page).context("--file")?;
    let group = arguments.options.open()?;
    let runner = TokioRunner::new().yield_before_sleep(true).on_stall(|event| eprintln!("{event:?}"));
    let serve = |listener| work(front_door::announced(&group, listener), &page, arguments.allow_block);
    Ok(runner.serve(&group, serve).run()?)
}

fn read_page(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut page)?;
    anyhow::ensure!(page.len() as u64 <= FILE_BYTES_MAX, "more than {FILE_BYTES_MAX} bytes");
    Ok(page)
}

async fn work(mut listener: AsyncListener, page: &[u8], allow_block: bool) -> Result<()> {
    let (mut connections, mut stopped) = (0_u64, pin!(listener.stopped()));
    let site = Arc::new(Site::new(page, allow_block));
    loop {
        let begin = |accepted: Accepted| {
            connections += 1;
            conversation::begin(accepted.stream, &site);
        };
        tokio::select! {
            biased;
            accepted = listener.accept_batch(ACCEPTS_PER_BATCH_MAX, begin) => drop(accepted?),
            () = &mut stopped => break,
        }
    }
    conversation::last_turns().await;
    let worker = listener.worker_listener().worker();
    println!("worker {worker}: {connections} connections, {} requests", site.requests());
    Ok(())
}
