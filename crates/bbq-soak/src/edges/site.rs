//! One server of several: its addresses, its configuration, and its faults.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::sinks::{self, Delivered, Sink};
use crate::admin;
use crate::book::Book;
use crate::clients::PATIENCE;
use crate::faults::{Faults, Made, Pace, Theme};
use crate::home::Home;
use crate::options::Disk;
use crate::random::Random;
use crate::server::{Server, wait};
use crate::settings::{self, Sizes};

pub(super) struct Site {
    pub(super) name: &'static str,
    pub(super) server: Server,
    /// Addresses for bbq clients and links: tcp, and a unix socket.
    pub(super) addresses: [String; 2],
    pub(super) plan: Plan,
    /// The faults of all rounds.
    pub(super) made: Made,
}

/// How long the stop at the end of a round waits for sinks, which have delivered everything.
const LAST_DRAIN_SECONDS: u64 = 30;

/// What configurations are drawn from.
pub(super) struct Plan {
    home: Home,
    listen: String,
    pub(super) sinks: Vec<Sink>,
    sizes: Sizes,
}

impl Plan {
    fn draw(&mut self, random: &mut Random) -> String {
        let sinks = sinks::draw(&mut self.sinks, random);
        let drain_seconds = *random.one_of(&[0, 1, 3]);
        self.text(&sinks, drain_seconds, random)
    }

    fn draw_with_all_sinks(&mut self, random: &mut Random) -> String {
        let sinks = sinks::all(&mut self.sinks, random);
        // A stop without time for the sinks leaves lines in a file that the cursor does not cover: the next start writes them again.
        self.text(&sinks, LAST_DRAIN_SECONDS, random)
    }

    /// A stop waits `drain_seconds` for sinks whose next server is away.
    fn text(&mut self, sinks: &str, drain_seconds: u64, random: &mut Random) -> String {
        let rest = settings::draw_rest(random, &self.home, &mut self.sizes);
        format!("{}{sinks}drain_timeout_seconds = {drain_seconds}\n{rest}", self.listen)
    }
}

/// What happened in a round.
pub(super) struct Round {
    /// A line for each fault.
    pub(super) diary: Vec<String>,
    pub(super) done: Result<()>,
}

impl Site {
    /// A server with a directory of its own.
    pub(super) fn new(
        name: &'static str,
        directory: &Path,
        bbq: &Path,
        [port, admin]: [u16; 2],
        sinks: Vec<Sink>,
    ) -> Site {
        let directory = directory.join(name);
        let home = Home {
            config: directory.join("bbq.toml"),
            data: directory.join("data"),
            log: directory.join("server.log"),
            admin: ([127, 0, 0, 1], admin).into(),
        };
        let socket = directory.join("socket");
        let addresses = [format!("bbq://127.0.0.1:{port}"), format!("bbq+unix://{}", socket.display())];
        let listen =
            format!("listen = [\"bbq+tcp://127.0.0.1:{port}\", \"bbq+unix://{}\"]\n", socket.display());
        let sizes = Sizes::draw(&mut Random::new(0), None, 1);
        let server = Server::new(bbq.to_owned(), home.clone());
        Site { name, server, addresses, plan: Plan { home, listen, sinks, sizes }, made: Made::default() }
    }

    /// Starts the server with new sizes and another configuration.
    pub(super) fn start(&mut self, workers_max: u64, random: &mut Random) -> Result<()> {
        self.plan.sizes = Sizes::draw(random, None, workers_max);
        self.server.configure(&self.plan.draw(random))?;
        self.server.start().context(self.name)
    }

    /// Makes faults for some time. Then the server runs.
    pub(super) fn faults(&mut self, book: &Book, duration: Duration, mut random: Random) -> Round {
        let theme = Theme::draw(&mut random, Disk::Well);
        let pace = Pace {
            pause_ms_max: *random.one_of(&[600, 1500, 4000]),
            away_ms_max: *random.one_of(&[100, 500, 4000]),
        };
        let Site { server, plan, made, .. } = self;
        let mut faults = Faults {
            book,
            server,
            disks: None,
            disk: Disk::Well,
            random,
            draw_config: &mut |random| plan.draw(random),
            pace,
            made: *made,
            diary: vec![format!("{}: {theme:?}, {pace:?}", self.name)],
        };
        let done = faults.round(theme, duration).context(self.name);
        *made = faults.made;
        Round { diary: faults.diary, done }
    }

    /// Adds the sinks that are missing by a reload.
    pub(super) fn add_all_sinks(&mut self, bbq: &Path, random: &mut Random) -> Result<()> {
        self.server.configure(&self.plan.draw_with_all_sinks(random))?;
        let admin = self.plan.home.admin.to_string();
        // A reload is refused while a sink cannot commit.
        wait(PATIENCE, || {
            let output = Command::new(bbq).args(["reload", "--admin", &admin]).output()?;
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(output.status.success(), "{}: bbq reload: {}: {text}", self.name, output.status);
            Ok(())
        })
    }

    /// Waits until everything is delivered. Returns what each sink has delivered since the first start.
    pub(super) fn wait_quiet(&self) -> Result<BTreeMap<&'static str, Delivered>> {
        let status = self.server.wait_quiet().context(self.name)?;
        let dropped = &status["ledger"]["dropped"];
        ensure!(admin::sum(dropped) == 0, "{}: messages were dropped: {dropped}", self.name);
        sinks::delivered(&self.plan.sinks, &status).context(self.name)
    }
}
