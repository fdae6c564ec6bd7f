//! Datagrams come in batches, and replies leave in batches. A reply comes from the address that was asked.
//!
//!     cargo run --release -p bbq-listen --example udp_echo -- 127.0.0.1:7777

use bbq_listen::{AsyncDatagrams, Datagram, Group, SendBatch};

async fn echo(mut datagrams: AsyncDatagrams) -> std::io::Result<()> {
    let mut replies = SendBatch::new(datagrams.worker_listener().socket().clone());
    loop {
        let reply = |datagram: Datagram<'_>| {
            replies.reply(&datagram, |reply| {
                reply.extend_from_slice(datagram.bytes);
                true
            });
        };
        datagrams.receive_batch(reply).await?;
        replies.send();
    }
}

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7777".to_owned());
    let group = Group::at(&format!("udp://{address}"))?.activated_or_open()?;
    println!("listening on {}", group.local_address());
    group.run_tokio_datagrams(echo)
}
