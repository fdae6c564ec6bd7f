//! The sink: fills an object for each lane, and writes those that are cut, one of each lane at a time.
//!
//! Invariant: no call but `wait` waits for a server. Files are written while `settle` or `wait` runs, as those of a `file:`.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bbq_format::{Format, Formatter};
use bbq_sink::{
    Compared, LastGroup, Now, PendingGroup, Problem, Room, Settled, Sink, TAKES_WITHIN, Unproven,
    wait_for_task,
};
use bbq_spool::{Group, Progress, Scratch};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinError, JoinSet};
use tracing::info;

use super::chains::Chains;
use super::folder::{self, Wanted};
use super::footer::Footer;
use super::lane::Lane;
use super::open_object::OpenObject;
use super::settings::ObjectSettings;
use super::store::Store;
use super::uploads::Patience;

/// Groups of an object: they come at most once a millisecond, and each takes some 200 bytes of memory until the object is written.
const OBJECT_GROUPS_MAX: usize = 30_000;
/// Groups of a lane in the object that is written and in the next one.
const GROUPS_MAX: usize = 2 * OBJECT_GROUPS_MAX;
/// An object is written at this age while the spool is filling up. Not at once: another sink may be what fills it, for days.
const PRESSED_AGE: Duration = Duration::from_secs(1);
/// All objects in memory together may have so many bytes beyond two whole objects.
const MEMORY_BYTES: usize = 64 * 1024 * 1024;

/// How a write ended: the footer of the object that is in the store now.
type Written = (u32, io::Result<Footer>);

enum Finished {
    Probed(io::Result<()>),
    Written(Written),
}

/// See the module.
pub(super) struct ObjectSink {
    settings: ObjectSettings,
    store: Arc<Store>,
    chains: Chains,
    lanes: BTreeMap<u32, Lane>,
    /// Groups that objects had already.
    known: Vec<Settled>,
    /// Objects that were there before this sink wrote them. The chain goes on behind one when its last group is found in the lane.
    found: BTreeMap<u32, Footer>,
    /// Groups that an object of `found` covers, if it is of this lane.
    unproven: BTreeMap<u32, (Unproven, Vec<Settled>)>,
    /// An object has other messages than the lane.
    conflict: Option<String>,
    /// The spool is filling up.
    is_pressed: bool,
    /// The store was found to be fit.
    is_probed: bool,
    is_probing: bool,
    running: JoinSet<Finished>,
    finished: Vec<Result<Finished, JoinError>>,
    /// How many messages were settled.
    progress: u64,
    formatter: Formatter,
    scratch: Scratch,
    runtime: Option<Runtime>,
}

impl ObjectSink {
    pub(super) fn new(settings: ObjectSettings, store: Store, chains: Chains) -> io::Result<ObjectSink> {
        Ok(ObjectSink {
            settings,
            store: Arc::new(store),
            chains,
            lanes: BTreeMap::new(),
            known: Vec::new(),
            found: BTreeMap::new(),
            unproven: BTreeMap::new(),
            conflict: None,
            is_pressed: false,
            is_probed: false,
            is_probing: false,
            running: JoinSet::new(),
            finished: Vec::new(),
            progress: 0,
            formatter: Formatter::new(Format::Json),
            scratch: Scratch::default(),
            runtime: Some(Builder::new_current_thread().enable_all().build()?),
        })
    }

    fn memory_max(&self) -> usize {
        MEMORY_BYTES + 2 * self.settings.bytes
    }

    fn bytes(&self) -> usize {
        self.lanes.values().map(Lane::bytes).sum()
    }

    fn room(&self) -> Room {
        if self.bytes() < self.memory_max() { Room::Free } else { Room::Full }
    }

    fn append(&mut self, group: Group, begun: u64, now: Now) -> io::Result<()> {
        let until = group.until();
        // What is confirmed here is only formatted: `progress` of this sink counts what is written.
        let pending = PendingGroup::new(group, begun, Arc::default());
        if until.position <= self.chains.end(until.lane) {
            let settled = self.skip(&pending);
            self.known.push(settled);
            return Ok(());
        }
        if self.is_found(&pending) {
            return Ok(());
        }
        let open = self.lanes.entry(until.lane).or_default().open.take();
        let mut open = match open {
            Some(open) => open,
            None => self.begin_object(&pending, begun, now)?,
        };
        open.append(&pending, &mut self.formatter, &mut self.scratch)?;
        self.lanes.entry(until.lane).or_default().open = Some(open);
        Ok(())
    }

    /// An object whose first messages are those of the group.
    fn begin_object(&mut self, group: &PendingGroup, begun: u64, now: Now) -> io::Result<OpenObject> {
        let folder = self.settings.folder.as_ref().map(|folder| {
            let received_ns = group.received_ns_of(begun + 1, &mut self.scratch);
            let now_ns = now.wall.timestamp_nanos_opt().and_then(|nanos| u64::try_from(nanos).ok());
            folder.at(received_ns.or(now_ns).unwrap_or(0))
        });
        OpenObject::new(self.settings.level, now.monotonic, folder)
    }

    /// The group as if it was written.
    fn skip(&mut self, pending: &PendingGroup) -> Settled {
        let (behind, _) = pending.walk(pending.place(), &mut self.scratch, |entry, _, skip| {
            u64::from(entry.batch.header.records) - skip
        });
        pending.confirm_until(behind);
        pending.settled()
    }

    /// Whether an object that was found covers the group. A copy of the data directory has the same positions, and other groups:
    /// only when the last group of the object is this lane's, too, are those before it.
    fn is_found(&mut self, pending: &PendingGroup) -> bool {
        let until = pending.until();
        let Some(&found) = self.found.get(&until.lane) else { return false };
        let last = LastGroup { until: found.until, record: found.record, received_ns: found.received_ns };
        let (scratch, lane) = (&mut self.scratch, until.lane);
        let (unproven, _) = self.unproven.entry(lane).or_insert_with(|| (Unproven::new(last), Vec::new()));
        let compared = unproven.compare(until.position, pending.first_record(), || {
            (until.record, pending.received_ns_of(u64::MAX, scratch).unwrap_or(0))
        });
        if compared == Compared::Behind {
            // What the object covers was lost here before it could be compared.
            self.unproven.remove(&until.lane);
            self.found.remove(&until.lane);
            self.chains.advance(until.lane, found.until);
            return false;
        }
        let settled = self.skip(pending);
        if compared == Compared::Same {
            let earlier = self.unproven.remove(&lane).map(|(_, groups)| groups);
            self.known.extend(earlier.unwrap_or_default());
            self.known.push(settled);
            self.found.remove(&until.lane);
            self.chains.advance(until.lane, found.until);
            return true;
        }
        if let Some((_, groups)) = self.unproven.get_mut(&lane) {
            groups.push(settled);
        }
        if compared == Compared::Other {
            let name = self.chains.next_name(until.lane);
            self.conflict = Some(format!(
                "{name} has messages of another bbq server that runs with a copy of this data directory; stop that server, and \
                 give this sink another name (?name=NAME), by which it writes objects of its own"
            ));
        }
        true
    }

    /// Notes which objects are to be cut.
    fn note_due(&mut self, now: Now) {
        let ObjectSettings { bytes, age, .. } = self.settings;
        let age = if self.is_pressed { age.min(PRESSED_AGE) } else { age };
        for lane in self.lanes.values_mut() {
            let is_old =
                lane.open.as_ref().is_some_and(|open| now.monotonic.saturating_sub(open.since) >= age);
            lane.is_due |= is_old || lane.open_bytes() >= bytes || lane.open_groups() >= OBJECT_GROUPS_MAX;
        }
        if self.room() == Room::Full
            && let Some(largest) = self.lanes.values_mut().max_by_key(|lane| lane.open_bytes())
        {
            largest.is_due = true;
        }
    }

    /// Cuts objects that are due, and begins to write those that are cut.
    fn begin_writes(&mut self) -> io::Result<()> {
        let Some(runtime) = &self.runtime else { return Ok(()) };
        if !self.is_probed {
            if !std::mem::replace(&mut self.is_probing, true) {
                let (store, id) = (Arc::clone(&self.store), self.chains.id.clone());
                let probe = async move { Finished::Probed(store.probe(&id).await) };
                self.running.spawn_on(probe, runtime.handle());
            }
            return Ok(());
        }
        let mut is_quiet = self.lanes.values().all(|lane| !lane.is_writing);
        for (&number, lane) in &mut self.lanes {
            if lane.cut.is_none()
                && lane.is_due
                && let Some(open) = lane.open.take()
            {
                lane.cut = Some(open.cut(number, self.chains.end(number))?);
            }
            if lane.open.is_none() {
                lane.is_due = false;
            }
            if let Some(cut) = lane.cut.as_ref().filter(|_| !lane.is_writing) {
                if is_quiet && let Some(uploads) = self.store.uploads() {
                    uploads.begin();
                }
                (lane.is_writing, is_quiet) = (true, false);
                let (name, store) = (self.chains.next_name(number), Arc::clone(&self.store));
                let (folder, bytes) = (cut.folder.clone(), Arc::clone(&cut.bytes));
                let is_repeated = lane.is_repeated;
                let wanted = Wanted { name, folder, footer: cut.footer, bytes, is_repeated };
                let write = async move { Finished::Written((number, folder::write(&store, wanted).await)) };
                self.running.spawn_on(write, runtime.handle());
            }
        }
        Ok(())
    }

    /// Handles the end of a task. After an error the task is begun again.
    fn handle(&mut self, finished: Finished, settled: &mut Vec<Settled>) -> Result<(), Problem> {
        let (number, found) = match finished {
            Finished::Probed(result) => {
                self.is_probing = false;
                result.map_err(|error| Problem::Retry(self.named(&error)))?;
                self.is_probed = true;
                return Ok(());
            }
            Finished::Written((number, Ok(found))) => (number, found),
            Finished::Written((number, Err(error))) => {
                if let Some(lane) = self.lanes.get_mut(&number) {
                    (lane.is_writing, lane.is_repeated) = (false, true);
                }
                return Err(Problem::Retry(self.named(&error)));
            }
        };
        let Some(lane) = self.lanes.get_mut(&number) else { return Ok(()) };
        (lane.is_writing, lane.is_repeated) = (false, false);
        if let Some(uploads) = self.store.uploads() {
            uploads.begin();
        }
        let Some(cut) = lane.cut.take() else { return Ok(()) };
        let name = self.chains.next_name(number);
        if found == cut.footer {
            self.chains.advance(number, found.until);
            self.progress += cut.groups.iter().map(|group| group.delivered).sum::<u64>();
            settled.extend(cut.groups);
            return Ok(());
        }
        self.found.insert(number, found);
        info!(
            sink = self.settings.name,
            object = name,
            "the object exists and ends elsewhere; comparing it with the spool"
        );
        let text = format!("{name} exists and ends elsewhere; its messages are not written again");
        Err(Problem::Failed(self.named(&io::Error::other(text))))
    }

    fn named(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.settings.shown))
    }
}

impl Sink for ObjectSink {
    fn submit(&mut self, group: Group, begun: u64, now: Now) -> Result<Room, Problem> {
        self.append(group, begun, now).map_err(|error| Problem::Failed(self.named(&error)))?;
        Ok(self.room())
    }

    fn groups_max(&self) -> usize {
        GROUPS_MAX
    }

    fn hurry(&mut self, is_pressed: bool) {
        self.is_pressed = is_pressed;
    }

    fn has_room_for(&self, lane: u32) -> bool {
        if self.conflict.is_some() {
            return false;
        }
        let Some(lane) = self.lanes.get(&lane) else { return true };
        lane.open_bytes() < self.settings.bytes && lane.open_groups() < OBJECT_GROUPS_MAX
    }

    fn settle(&mut self, now: Now, settled: &mut Vec<Settled>) -> Result<Room, Problem> {
        self.progress += self.known.iter().map(|group| group.delivered).sum::<u64>();
        settled.append(&mut self.known);
        self.note_due(now);
        self.begin_writes().map_err(|error| Problem::Failed(self.named(&error)))?;
        if let Some(runtime) = &self.runtime {
            // Every write proceeds as far as it can without waiting.
            runtime.block_on(tokio::task::yield_now());
        }
        while let Some(finished) = self.running.try_join_next() {
            self.finished.push(finished);
        }
        let mut problem = None;
        for finished in std::mem::take(&mut self.finished) {
            let handled = match finished {
                Ok(finished) => self.handle(finished, settled),
                // A write is gone: its groups are submitted again after `roll_back`.
                Err(panic) => Err(Problem::Failed(io::Error::other(panic))),
            };
            match handled {
                Err(failed @ Problem::Failed(_)) => problem = Some(failed),
                Err(other) => {
                    problem.get_or_insert(other);
                }
                Ok(()) => {}
            }
        }
        if let Some(text) = &self.conflict {
            problem.get_or_insert_with(|| Problem::Retry(self.named(&io::Error::other(text.clone()))));
        }
        problem.map_or_else(|| Ok(self.room()), Err)
    }

    fn progress(&self) -> u64 {
        self.progress
    }

    fn wait(&mut self, progress: &Progress, seen: u64, patience: Duration) {
        let Some(runtime) = &self.runtime else { return };
        self.finished.extend(wait_for_task(runtime, &mut self.running, progress, seen, patience));
    }

    fn state(&self) -> String {
        self.chains.to_string()
    }

    fn may_give_up(&self) -> bool {
        true
    }

    /// Nothing is settled before an object is complete. An upload has as long as it makes progress, and the small requests around it.
    fn takes_within(&self) -> Duration {
        let upload = self.store.uploads().map_or(Duration::ZERO, |uploads| {
            let cut = self.lanes.values().filter_map(|lane| lane.cut.as_ref());
            let largest = cut.map(|cut| cut.bytes.len()).max().unwrap_or(0);
            uploads.lasted() + Patience::DEFAULT.response(largest)
        });
        self.settings.age + TAKES_WITHIN + upload
    }

    /// Everything that is here is cut, as nothing more comes.
    fn finish(&mut self, _: Now) -> bool {
        self.lanes.values_mut().for_each(|lane| lane.is_due |= lane.open.is_some());
        // Now, as there is not much time. After an error `settle` tries again.
        let _retried = self.begin_writes();
        true
    }

    /// A write that is given up here may still arrive: the next one of the same name fails then.
    fn roll_back(&mut self) -> io::Result<()> {
        self.running = JoinSet::new();
        self.finished.clear();
        self.known.clear();
        self.unproven.clear();
        self.conflict = None;
        self.lanes.retain(|_, lane| lane.roll_back());
        self.is_probing = false;
        Ok(())
    }
}

impl Drop for ObjectSink {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::open_object::CutObject;
    use super::super::test_server::{TestServer, connector};
    use super::*;

    /// A sink that has an object to upload.
    fn sink(server: &TestServer) -> ObjectSink {
        let (name, shown) = ("s3".to_owned(), "s3://logs".to_owned());
        let (bytes, age) = (1024, Duration::from_secs(60));
        let settings = ObjectSettings { name, shown, bytes, age, folder: None, level: 3 };
        let mut sink = ObjectSink::new(settings, server.store(connector()), Chains::new().unwrap()).unwrap();
        sink.is_probed = true;
        let footer = Footer { lane: 0, from: 0, until: 7, record: 7, received_ns: 1 };
        let bytes = footer.bytes().into();
        let cut = Some(CutObject { footer, folder: None, bytes, groups: Vec::new() });
        sink.lanes.insert(0, Lane { cut, ..Lane::default() });
        sink
    }

    fn upload(sink: &mut ObjectSink) -> Result<(), Problem> {
        sink.begin_writes().unwrap();
        let finished = sink.runtime.as_ref().unwrap().block_on(sink.running.join_next());
        sink.handle(finished.unwrap().unwrap(), &mut Vec::new())
    }

    #[test]
    fn after_an_upload_that_failed_the_sink_looks_first() {
        let server = TestServer::start();
        let mut sink = sink(&server);
        server.lose_response(1);
        assert!(matches!(upload(&mut sink), Err(Problem::Retry(_))));
        assert!(upload(&mut sink).is_ok());
        assert_eq!(server.requests(), ["PUT 128", "GET"]);
        assert_eq!((sink.chains.end(0), sink.lanes[&0].is_repeated), (7, false));
    }

    #[test]
    fn after_an_upload_that_was_given_up_the_sink_looks_first() {
        let mut sink = sink(&TestServer::start());
        sink.begin_writes().unwrap();
        sink.lanes.insert(1, Lane::default());
        for _ in 0..2 {
            sink.roll_back().unwrap();
            assert!(sink.lanes[&0].is_repeated && !sink.lanes[&0].is_writing && sink.lanes.len() == 1);
        }
    }

    #[test]
    fn the_sink_may_take_as_long_as_an_upload_makes_progress() {
        let mut sink = sink(&TestServer::start());
        let shortest = sink.settings.age + TAKES_WITHIN + Patience::DEFAULT.response(0);
        assert_eq!(sink.takes_within(), shortest);
        std::thread::park_timeout(Duration::from_millis(20));
        assert_eq!(sink.takes_within(), shortest, "nothing has moved");
        sink.store.uploads().unwrap().note();
        assert!(sink.takes_within() >= shortest + Duration::from_millis(20));
        upload(&mut sink).unwrap();
        assert_eq!(sink.takes_within(), shortest, "it has arrived");
        let footer = Footer { lane: 1, from: 0, until: 7, record: 7, received_ns: 1 };
        let cut =
            Some(CutObject { footer, folder: None, bytes: vec![0; 1 << 20].into(), groups: Vec::new() });
        sink.lanes.insert(1, Lane { cut, ..Lane::default() });
        assert_eq!(sink.takes_within(), shortest + Duration::from_secs(64));
    }
}
