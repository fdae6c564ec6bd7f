//! A sink of bbq-server, to files or to other servers, that runs step by step, without its thread and its waits.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bbq_sink::{Goal, Now, Resender, Resent, SinkDriver, SinkOpening, SinkSpec, SinkStep, Skip};
use bbq_sink_file::simulated_file;
use bbq_sink_forward::{LinkNetwork, simulated_link};
use bbq_spool::{Spool, SteppedTime};
use bbq_storage::Storage;
use bbq_stored::Retention;

use super::options::{Destination, Limits, ServerOptions, SinkOptions, name_of, rules_of};
use super::port::Port;
use super::resends::Resends;
use crate::bug::Bug;
use crate::disk::SimDisk;
use crate::late_sync::LateSync;
use crate::random::Random;
use crate::receiver::Receiver;

enum Stage {
    /// The output is not open yet.
    Opening(Box<SinkOpening>),
    Working(Box<SinkDriver>),
    /// Only while `Opening` becomes `Working`.
    None,
}

pub(crate) struct Sink {
    /// The name of its output.
    pub(crate) name: String,
    clock_rate: u32,
    time: Arc<SteppedTime>,
    stage: Stage,
    /// The socket of a sink that passes messages on to another server.
    pub(super) port: Option<Arc<Port>>,
    /// The destination of a sink that makes requests.
    receiver: Option<Arc<Receiver>>,
    /// A sink that makes requests leaves its destination alone until then.
    pauses_until: Duration,
    resender: Resender,
    /// Its output is stuck.
    pub(crate) is_stuck: bool,
    /// An operator has paused it.
    pub(crate) is_paused: bool,
    /// For the planted bug "output cut back": the disk of its output.
    cuts_back: Option<SimDisk>,
}

/// The directory of the outputs of all sinks, with the files that were set aside.
pub(crate) const OUTPUTS: &str = "/out";

/// In the name of a file that has what was cut off an output.
const SURPLUS: &str = ".beyond-cursor-";
/// At the end of the name of one that a crash has interrupted.
const PARTIAL: &str = ".partial";

/// The contents of all output files, also of deleted files, oldest first. With `has_surplus`, those too that have what was cut off an
/// output because the spool does not have it.
pub(crate) fn outputs(disk: &SimDisk, name: &str, has_surplus: bool) -> Vec<Vec<u8>> {
    let current = Path::new(OUTPUTS).join(name);
    let is_aside = |path: &PathBuf| {
        let path = path.to_string_lossy();
        let is_whole = has_surplus && !path.ends_with(PARTIAL);
        path.starts_with(&format!("{}.", current.display())) && (is_whole || !path.contains(SURPLUS))
    };
    let mut files = disk.removed();
    files.extend(disk.names(Path::new(OUTPUTS)).into_iter().map(|path| {
        let bytes = disk.contents(&path).unwrap_or_default();
        (path, bytes)
    }));
    files.retain(|(path, _)| is_aside(path));
    files.sort_by(|(one, _), (other, _)| one.cmp(other));
    let last = disk.contents(&current).unwrap_or_default();
    files.into_iter().map(|(_, bytes)| bytes).chain([last]).collect()
}

/// Removes what sinks have cut off and kept.
fn forget_surplus(disk: &SimDisk) {
    let names = disk.names(Path::new(OUTPUTS)).into_iter();
    for path in names.filter(|path| path.to_string_lossy().contains(SURPLUS)) {
        disk.take_away(&path);
    }
}

/// Removes the rules that sinks have had.
fn forget_rules(disk: &SimDisk) {
    let names = disk.names(Path::new("/data/cursors")).into_iter();
    for path in names.filter(|path| path.extension().is_some_and(|extension| extension == "rules")) {
        disk.take_away(&path);
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.receiver.iter().for_each(|receiver| receiver.lose_sink());
    }
}

impl Sink {
    /// Reads the sink's cursor. The first step opens the output.
    pub(super) fn new(
        disk: &SimDisk,
        spool: &Arc<Spool>,
        retention: &Arc<Retention>,
        time: &Arc<SteppedTime>,
        index: usize,
        options: &ServerOptions,
    ) -> Result<Sink, String> {
        let name = format!("sink-{index}");
        let configured = name_of(index, options.sinks[index].name);
        let path = Path::new(OUTPUTS).join(&name);
        let SinkOptions { destination, clock_rate, limits, rules, .. } = options.sinks[index];
        let receiver = options.receivers.get(&index).cloned();
        let (spec, port) = match destination {
            Destination::File(rotation) => (simulated_file(&configured, &path, rotation), None),
            Destination::Servers(servers) => {
                let random = Random::new(time.now_ns.load(Ordering::Relaxed) ^ !options.salt);
                let port = Arc::new(Port::new(servers, random));
                let network: Arc<dyn LinkNetwork> = Arc::clone(&port) as Arc<dyn LinkNetwork>;
                (simulated_link(&name, servers.count(), port.new_id(), network), Some(port))
            }
            Destination::Requests => {
                let receiver = receiver.as_ref().ok_or("a sink without a receiver")?;
                (receiver.spec(&configured), None)
            }
        };
        let Limits { bytes_max, age_max, drops_oldest, letters_bytes } = limits;
        let spec = spec.with_limits(bytes_max, age_max, drops_oldest).with_rules(rules_of(rules)?);
        let spec = letters_bytes.into_iter().fold(spec, SinkSpec::with_dead_letters_bytes);
        let storage: Arc<dyn Storage> = match options.bug {
            Some(Bug::CursorBeforeData) => Arc::new(LateSync::new(disk.clone())),
            _ => Arc::new(disk.clone()),
        };
        if options.bug == Some(Bug::RulesForgotten) {
            forget_rules(disk);
        }
        let opening = SinkOpening::new(index, &spec, spool, Arc::clone(retention), storage);
        let opening = opening.map_err(|error| format!("{name}: {error}"))?;
        let resender = opening.resender();
        let stage = Stage::Opening(Box::new(opening));
        let cuts_back = (options.bug == Some(Bug::OutputCutBack)).then(|| disk.clone());
        Ok(Sink {
            name,
            clock_rate,
            time: Arc::clone(time),
            stage,
            port,
            receiver,
            pauses_until: Duration::ZERO,
            resender,
            is_stuck: false,
            is_paused: false,
            cuts_back,
        })
    }

    fn now(&self) -> Now {
        let monotonic = Duration::from_nanos(self.time.now_ns.load(Ordering::Relaxed));
        let unix_ns = self.time.unix_ns.load(Ordering::Relaxed);
        let own = match &self.receiver {
            Some(receiver) => receiver.now(monotonic),
            None => monotonic * self.clock_rate,
        };
        Now::new(own, unix_ns)
    }

    /// Does a step. Returns its result, or in words why there was none.
    pub(super) fn step(&mut self, goal: Goal) -> Result<SinkStep, String> {
        if self.is_stuck {
            return Err("stuck".to_owned());
        }
        let now = self.now();
        if now.monotonic < self.pauses_until && goal != Goal::Hold {
            return Err("it leaves its destination alone".to_owned());
        }
        let step = self.step_at(now, goal);
        if let (Some(receiver), Ok(step)) = (&self.receiver, &step) {
            if let SinkStep::Retry { pause, .. } = step {
                self.pauses_until = now.monotonic + *pause;
            }
            if matches!(&self.stage, Stage::Working(driver) if driver.is_drained()) {
                receiver.settle();
            }
        }
        step
    }

    fn step_at(&mut self, now: Now, goal: Goal) -> Result<SinkStep, String> {
        if let Stage::Opening(_) = &self.stage
            && let Stage::Opening(opening) = std::mem::replace(&mut self.stage, Stage::None)
        {
            match opening.open(now) {
                Ok(driver) => {
                    self.stage = Stage::Working(Box::new(driver));
                    self.cuts_back.iter().for_each(forget_surplus);
                }
                Err((opening, why)) => {
                    self.stage = Stage::Opening(opening);
                    return Err(why);
                }
            }
        }
        match &mut self.stage {
            Stage::Working(driver) => Ok(driver.step(now, goal)),
            _ => Err("its output is not open".to_owned()),
        }
    }

    /// Passes messages, as the sink's thread does: while the sink holds. `goes_on` says how often it may look whether to go on.
    pub(super) fn skip(&mut self, skip: Skip, goes_on: u64) -> Result<u64, String> {
        let (holds, step) = self.hold()?;
        let (now, looks) = (self.now(), Cell::new(goes_on));
        match &mut self.stage {
            Stage::Working(driver) if holds => {
                driver.close_idle();
                let before = driver.skipped();
                let skipped = driver.skip(skip, now, &|| looks.replace(looks.get().saturating_sub(1)) > 0);
                if let Ok(messages) = skipped {
                    assert_eq!(driver.skipped(), before + messages, "it says that so many were skipped");
                }
                skipped
            }
            _ => Err(format!("it does not hold: {step:?}")),
        }
    }

    /// Whether it holds, and its step.
    fn hold(&mut self) -> Result<(bool, SinkStep), String> {
        let step = self.step(Goal::Hold)?;
        let holds = matches!(
            step,
            SinkStep::Held | SinkStep::Blocked { is_clean: true } | SinkStep::Retry { may_hold: true, .. }
        );
        Ok((holds, step))
    }

    /// Sends the dead letters of a sink that makes requests again, as the sink's thread does: while it holds. `draws` says what happens
    /// meanwhile.
    pub(super) fn resend(&mut self, disk: &SimDisk, draws: Random) -> Result<Resent, String> {
        let (true, _) = self.hold()? else { return Err("it does not hold".to_owned()) };
        let Some(receiver) = self.receiver.clone() else { return Err("it makes no requests".to_owned()) };
        let mut resends = Resends::new(self.now(), Arc::clone(&receiver), disk.clone(), draws);
        let Stage::Working(driver) = &mut self.stage else { return Err("it is not open".to_owned()) };
        driver.close_idle();
        receiver.begin_resend();
        let resent = self.resender.resend(driver, &mut resends);
        // What is settled behind a gap is not committed: that happens with several requests at a time.
        let is_one_by_one = receiver.options().in_flight == Some(1);
        let is_committed = resent.as_ref().is_ok_and(|resent| resent.left.is_none() || is_one_by_one);
        receiver.end_resend(is_committed);
        resent
    }

    /// Gives the sink another name, as the sink's thread does: while it holds.
    pub(super) fn rename(&mut self, name: &str) -> Result<(), String> {
        let (true, _) = self.hold()? else { return Err("it does not hold".to_owned()) };
        let Stage::Working(driver) = &mut self.stage else { return Err("it is not open".to_owned()) };
        driver.close_idle();
        self.resender.rename(driver, name)
    }

    /// The destination of a sink that makes requests.
    pub(crate) fn receiver(&self) -> Option<&Arc<Receiver>> {
        self.receiver.as_ref()
    }

    /// Somebody may have moved the output away.
    pub(crate) fn reopen(&mut self) {
        if let Stage::Working(driver) = &mut self.stage {
            driver.reopen();
        }
    }

    /// Its present name on the disk.
    pub(super) fn present_name(&self) -> &str {
        match &self.stage {
            Stage::Working(driver) => driver.name(),
            _ => &self.name,
        }
    }

    pub(super) fn close_letters(&mut self) {
        if let Stage::Working(driver) = &mut self.stage {
            driver.close_idle();
        }
    }

    /// Whether everything was read, written and committed.
    pub(super) fn is_drained(&self) -> bool {
        matches!(&self.stage, Stage::Working(driver) if driver.is_drained())
    }

    /// The sink's counts for the ledger at its last commit: delivered and dropped.
    pub(crate) fn ledger(&self) -> (u64, BTreeMap<String, u64>) {
        match &self.stage {
            Stage::Working(driver) => (driver.committed().delivered, driver.committed().dropped.clone()),
            _ => (0, BTreeMap::new()),
        }
    }

    /// What its rules have left out, at its last commit.
    pub(crate) fn filtered(&self) -> u64 {
        match &self.stage {
            Stage::Working(driver) => driver.committed().filtered,
            _ => 0,
        }
    }

    /// What the sink waits for, for error messages.
    pub(crate) fn describe(&self) -> String {
        let stage = match &self.stage {
            Stage::Working(driver) => driver.describe(),
            _ => "its output is not open".to_owned(),
        };
        let receiver = self.receiver.as_ref().map(|receiver| receiver.describe());
        format!("{}: {stage}, stuck {}, paused {}, {receiver:?}", self.name, self.is_stuck, self.is_paused)
    }
}
