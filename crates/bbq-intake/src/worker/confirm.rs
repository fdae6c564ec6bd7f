//! `confirm+tcp`, for tests only: each line is confirmed when it is on disk. The shortest source that answers its senders.

use std::io;
use std::iter;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use bbq_wire::{Peer, SourceKind};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::task::spawn_local;

use super::arrival::{Arrival, ArrivalOutcome};
use super::intake::Intake;

/// Serves a connection until its client or the server ends it.
pub(super) fn begin(arrival: Arrival<'_>) -> ArrivalOutcome {
    let peer = arrival.peer;
    let Arrival { intake, listener_index, accepted, address, .. } = arrival;
    let (intake, open) = (Rc::clone(intake), intake.connections.open.add(accepted.open, address));
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

pub(super) mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::Shutdown;
    use std::sync::Arc;

    use bbq_listen::{Address, Group, GroupOptions};
    use bbq_spec::threads::spawn;
    use bbq_spec::unix_seconds;
    use bbq_spool::{DirectoryLock, DiskStorage, Source, Spool, SpoolOptions, Storage};
    use bbq_stored::{Ledger, Replicas, Retention, Streams};
    use tokio::sync::watch;

    use super::*;
    use crate::access::{Floods, Growth};
    use crate::listen::ListenSpec;
    use crate::worker::{
        Command, ConfiguredLimits, ConnectionBudget, GelfChunks, IntakeLimits, ListenerSetup, Worker,
        WorkerMesh, WorkerView,
    };

    /// A worker needs a lane and its listeners, and nothing of the server around it; and a source two lines in other files.
    #[test]
    fn each_line_is_confirmed_when_it_is_on_disk() {
        let directory = tempfile::tempdir().unwrap();
        let _lock = DirectoryLock::take(directory.path()).unwrap();
        let spec = Arc::new(ListenSpec::parse("confirm+tcp://127.0.0.1:0").unwrap());
        let group = GroupOptions::new(spec.address.clone(), 1).open().unwrap();
        let Address::Tcp(address) = *group.local_address() else { panic!("it is at tcp") };
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        let source = Source { name: spec.source.clone(), drops_oldest: false };
        let options = SpoolOptions::new(directory.path().to_owned(), 1, vec![source]);
        let spool = Arc::new(Spool::open(Arc::clone(&storage), &options).unwrap());
        let ledger = Ledger::recover(
            Arc::clone(&storage),
            directory.path(),
            std::slice::from_ref(&spec.source),
            &[],
            0,
        );
        let (worker, stop) = worker(&spool, (&spec, &group), &ledger, storage);
        let thread = spawn("worker-0".to_owned(), move || worker.run().map(|paused| paused.len())).unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"one\ntwo\n").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut answers = String::new();
        client.read_to_string(&mut answers).unwrap();
        assert_eq!(answers, "on disk\non disk\n");
        stop.send(Command::Stop).unwrap();
        assert_eq!(thread.join().unwrap().unwrap(), 0);
        assert!(spool.close().values().all(|unwritten| *unwritten == 0));
        let status = ledger.listener(0).status();
        assert_eq!((status.received, status.dropped.len()), (2, 0));
    }

    /// A worker with one listener, and what tells it to stop.
    pub(in crate::worker) fn worker(
        spool: &Arc<Spool>,
        (spec, group): (&Arc<ListenSpec>, &Group),
        ledger: &Ledger,
        storage: Arc<dyn Storage>,
    ) -> (Worker, watch::Sender<Command>) {
        let listener = ListenerSetup {
            spec: Arc::clone(spec),
            ledger: Arc::clone(ledger.listener(0)),
            worker_listener: group.worker_listener(0).unwrap(),
            tls: None,
            tokens: None,
            refusals: Arc::default(),
            address_limit: None,
            address_rate: None,
            floods: Floods::new(),
            growth: Growth::new(),
            gelf_chunks: GelfChunks::of(spec),
        };
        let data = spool.directory();
        let streams = Arc::new(Streams::recover(storage, data, spool, unix_seconds()).unwrap());
        let (mesh, mut inboxes) = WorkerMesh::new(&spool.lanes());
        let limits = ConfiguredLimits {
            hello_timeout_seconds: 10,
            batch_timeout_seconds: 10,
            evict_idle_seconds: 10,
            unfinished_bytes_max: 1 << 20,
            workers: 1,
            has_little_memory: true,
        };
        let (tell, stop) = watch::channel(Command::Work);
        let worker = Worker {
            index: 0,
            lane: spool.lanes()[0].clone(),
            listeners: vec![listener],
            readers: Vec::new(),
            retention: Arc::new(Retention::new(Arc::clone(spool), Arc::clone(&streams), 0)),
            streams,
            replicas: Replicas::of(0, Vec::new),
            mesh,
            inbox: inboxes.remove(0),
            budget: Arc::new(ConnectionBudget::new(100)),
            limits: IntakeLimits::of_worker(&limits),
            view: Arc::new(WorkerView::new(0)),
            stop,
            paused: Vec::new(),
        };
        (worker, tell)
    }
}
