//! A process that is killed at random moments and started again.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::random::Random;

/// Anything that takes longer to be ready hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);
/// The interval between two checks of a condition.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How often a process stays away for long, in per cent.
const LONG_PERCENT: u64 = 30;

/// A process that is killed when this is dropped.
pub(super) struct Running(pub(super) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _collected = self.0.wait();
    }
}

/// Milliseconds from a minimum on, drawn anew each time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) least: u64,
    pub(super) more: u64,
}

impl Span {
    fn draw(self, random: &mut Random) -> Duration {
        Duration::from_millis(self.least + random.below(self.more))
    }
}

pub(super) struct Victim {
    pub(super) name: String,
    pub(super) command: Box<dyn Fn() -> Command + Send>,
    pub(super) log: PathBuf,
    /// Whether the process serves; called until it does.
    pub(super) is_ready: Box<dyn Fn(u64) -> bool + Send>,
    /// How long it runs between two kills.
    pub(super) up: Span,
    /// How long it stays away at times: longer than a broker remembers what it was sent.
    pub(super) long_away: Span,
    pub(super) starts: u64,
}

/// How long it stays away mostly.
const SHORT_AWAY: Span = Span { least: 0, more: 500 };

impl Victim {
    /// Starts the process, and waits until it is ready.
    pub(super) fn start(&mut self) -> Result<Running> {
        let mut running = self.launch()?;
        self.wait_ready(&mut running)?;
        Ok(running)
    }

    fn launch(&mut self) -> Result<Running> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let mut command = (self.command)();
        command.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("{}: cannot start {command:?}", self.name))?;
        self.starts += 1;
        Ok(Running(child))
    }

    fn wait_ready(&self, running: &mut Running) -> Result<()> {
        let begin = Instant::now();
        while !(self.is_ready)(self.starts) {
            if let Some(status) = running.0.try_wait()? {
                bail!("{} ended with {status} instead of serving; see {}", self.name, self.log.display());
            }
            if begin.elapsed() > PATIENCE {
                bail!(
                    "{} is not ready within {} s; see {}",
                    self.name,
                    PATIENCE.as_secs(),
                    self.log.display()
                );
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        Ok(())
    }
}

/// Processes that are ready only when most of them are there, such as the members of a cluster.
pub(super) fn start_all(victims: &mut [Victim]) -> Result<Vec<Running>> {
    let mut running = victims.iter_mut().map(Victim::launch).collect::<Result<Vec<_>>>()?;
    victims.iter().zip(&mut running).try_for_each(|(victim, running)| victim.wait_ready(running))?;
    Ok(running)
}

/// Kills so many times one of the processes, each time at a random moment. Returns the last ones, which run.
pub(super) fn kill_often(
    victims: &mut [Victim],
    mut running: Vec<Running>,
    kills: u64,
    mut random: Random,
) -> Result<Vec<Running>> {
    for _ in 0..kills {
        let index = random.below(victims.len() as u64) as usize;
        let victim = &mut victims[index];
        std::thread::sleep(victim.up.draw(&mut random));
        // SIGKILL, and the wait for its end.
        drop(running.swap_remove(index));
        let away = if random.percent(LONG_PERCENT) { victim.long_away } else { SHORT_AWAY };
        std::thread::sleep(away.draw(&mut random));
        running.push(victim.start()?);
        // In the order of the victims again.
        let last = running.len() - 1;
        running.swap(index, last);
    }
    Ok(running)
}
