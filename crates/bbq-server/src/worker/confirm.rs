//! `confirm+tcp`, for tests only: each line is confirmed when it is on disk. The shortest source that answers its senders.

use std::io;
use std::iter;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use bbq_wire::{Peer, SourceKind};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::task::spawn_local;

use super::accept::arrival::{Arrival, ArrivalOutcome};
use super::intake::Intake;

/// Serves a connection until its client or the server ends it.
pub(super) fn begin(arrival: Arrival<'_>) -> ArrivalOutcome {
    let peer = arrival.peer;
    let Arrival { intake, listener_index, accepted, address, .. } = arrival;
    let (intake, open) = (Rc::clone(intake), intake.open.add(accepted.open, address));
    spawn_local(async move {
        if let Err(error) = serve(&intake, listener_index, peer, accepted.stream).await {
            intake.listeners[listener_index].report_closed(&error);
        }
        drop(open);
    });
    ArrivalOutcome::Open
}

async fn serve(intake: &Intake, listener_index: usize, peer: Peer, stream: OwnedFd) -> io::Result<()> {
    let stream = TcpStream::from(stream);
    stream.set_nonblocking(true)?;
    let (reader, mut writer) = tokio::net::TcpStream::from_std(stream)?.into_split();
    let mut lines = BufReader::new(reader).lines();
    loop {
        let line = tokio::select! {
            biased;
            () = intake.stopping.wait() => return Ok(()),
            line = lines.next_line() => line?,
        };
        let Some(line) = line else { return Ok(()) };
        let records = iter::once(line.as_bytes());
        let answer = match intake.append(listener_index, SourceKind::Lines, records, peer) {
            Ok(ticket) => {
                ticket.durable().await.map_or_else(|lost| lost.to_string(), |()| "on disk".to_owned())
            }
            Err(why) => why.to_string(),
        };
        writer.write_all(format!("{answer}\n").as_bytes()).await?;
    }
}

mod tests {
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::net::Shutdown;
    use std::sync::Arc;
    use std::time::Duration;

    use bbq_listen::Address;
    use bbq_spool::DirectoryLock;

    use super::*;
    use crate::config::{Config, Overrides};
    use crate::lifecycle::listeners::Sockets;
    use crate::lifecycle::running::{Halt, Running, Start};
    use crate::observe::changes::Changes;

    /// A source needs two lines in other files, and everything else works: help, schema, ledger, stop.
    #[test]
    fn each_line_is_confirmed_when_it_is_on_disk() {
        let directory = tempfile::tempdir().unwrap();
        let (path, data) = (directory.path().join("bbq.toml"), directory.path().join("data"));
        let text = "listen = [\"confirm+tcp://127.0.0.1:0\"]\nsink = [\"null:\"]\nadmin = \"off\"\n";
        fs::write(&path, format!("data = {data:?}\n{text}")).unwrap();
        let config = Config::load(Some(&path), &Overrides::default()).unwrap();
        let _lock = DirectoryLock::take(&data).unwrap();
        let sockets = Sockets::open(&config, &mut Vec::new()).unwrap();
        let (listeners, changes) = (sockets.listeners.clone(), Arc::new(Changes::new()));
        let start = Start { config: &config, listeners, changes: &changes, is_strict: true };
        let running = Running::start(start, &mut Vec::new(), || Ok(())).unwrap();
        let Address::Tcp(address) = sockets.listeners[0].group.local_address() else {
            panic!("it is at tcp")
        };
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"one\ntwo\n").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut answers = String::new();
        client.read_to_string(&mut answers).unwrap();
        assert_eq!(answers, "on disk\non disk\n");
        let parts = Arc::clone(&running.parts);
        assert!(running.end(&Halt::Stop { drain_timeout: Duration::from_secs(60) }).in_order);
        let ledger = parts.status().ledger;
        assert_eq!((ledger.received, ledger.delivered, ledger.queued), (2, 2, 0));
    }
}
