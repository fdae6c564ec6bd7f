//! Seed 000's greeter: a name per connection, `Hello, NAME` in the log of the worker that took it.
//!
//!     cargo run --release -p bbq-listen --example greeter -- --listen 127.0.0.1:12345 --workers 4 --logs /tmp/logs
//!     printf Alice | nc -N 127.0.0.1 12345
//!     wc -l /tmp/logs/worker_*.log
//!
//! The name ends with the connection. The name `exit` stops the worker that reads it; when all have stopped, the program ends, as
//! in the seed. Unlike in the seed, no connection is lost while a worker is left: the others accept what waits for it.
//! What else a worker reads while it ends is greeted, but another `exit` among it stops nobody.

#[path = "common/front_door.rs"]
mod front_door;

use std::fs::{File, create_dir_all};
use std::io::{Result, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use bbq_listen::{AsyncListener, CountedStream};
use clap::Parser;
use tokio::io::{AsyncReadExt, copy, sink};
use tokio::task::JoinSet;

/// Longer names are cut: 255 bytes are enough for any real name.
const NAME_BYTES_MAX: u64 = 255;

/// Greets.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: front_door::Options,
    /// Where the log files go: worker_0.log, worker_1.log, ...
    #[arg(long, value_name = "DIR", default_value = ".")]
    logs: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let Arguments { options, logs } = Arguments::parse();
    create_dir_all(&logs).with_context(|| format!("--logs {}", logs.display()))?;
    let group = options.open()?;
    group.run_tokio(|listener| work(front_door::announced(&group, listener), &logs))?;
    Ok(())
}

async fn work(mut listener: AsyncListener, logs: &Path) -> Result<()> {
    let worker = listener.worker_listener().worker();
    let log = Arc::new(File::create(logs.join(format!("worker_{worker}.log")))?);
    let (mut clients, mut count) = (JoinSet::new(), 0);
    let mut stopped = std::pin::pin!(listener.stopped());
    let how = loop {
        tokio::select! {
            biased;
            Some(told_to_exit) = clients.join_next() => if told_to_exit?? { break ", then was told to exit" },
            accepted = listener.accept() => {
                clients.spawn(greet(accepted?.0, Arc::clone(&log)));
                count += 1;
            }
            () = &mut stopped => break "",
        }
    };
    drop(listener); // what waits is for the others, while this worker serves its last clients
    clients.join_all().await.into_iter().collect::<Result<Vec<bool>>>()?;
    println!("worker {worker}: {count} connections{how}");
    Ok(())
}

/// Reads a name to the end of the connection, which may be broken. Returns whether it was `exit`.
async fn greet(mut stream: CountedStream, log: Arc<File>) -> Result<bool> {
    let mut name = Vec::new();
    let _ = (&mut stream).take(NAME_BYTES_MAX).read_to_end(&mut name).await;
    let _ = copy(&mut stream, &mut sink()).await;
    let name = String::from_utf8_lossy(name.trim_ascii_end());
    if !matches!(&*name, "exit" | "") {
        // One write per line, so that the log can be followed; escaped, so that no name has two lines.
        log.as_ref().write_all(format!("Hello, {}\n", name.escape_debug()).as_bytes())?;
    }
    Ok(name == "exit")
}
