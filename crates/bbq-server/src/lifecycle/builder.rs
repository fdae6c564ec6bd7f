//! A server in the process of another program, with handlers.

use std::fmt;
use std::path::{Path, PathBuf};

use bbq_config::{Config, Overrides, known_option};
use bbq_sink_handler::{Handler, sink_spec as handler_spec};
use bbq_spec::{ConfigError, checked_name};

use crate::error::StartError;
use crate::lifecycle::host::Host;
use crate::lifecycle::server::Server;
use crate::lifecycle::signals::Signals;
use crate::sinks::KINDS;

/// Most handlers of a name: one thread each, of which each has a share of the lanes.
const HANDLERS_MAX: usize = 1024;

/// What a server in this process is to serve, and who handles its messages; made by [`Server::builder`].
///
/// Everything that is not set is as in `bbq serve`, but for the admin, which is off, and the sinks: there are none beside the
/// handlers. docs/CONFIGURATION.md has all options.
#[must_use]
pub struct ServerBuilder {
    file: Option<PathBuf>,
    listen: Vec<String>,
    readers: Vec<String>,
    sinks: Vec<String>,
    settings: Vec<(String, String)>,
    handlers: Vec<(String, Vec<Box<dyn Handler>>)>,
    stops_on_signals: bool,
}

impl Server {
    /// A server in this process, which gives its messages to handlers. It has threads of its own, and needs no event loop.
    ///
    /// ```
    /// use std::sync::mpsc::sync_channel;
    /// use bbq_server::{HandlerError, Messages, Server};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// let (first, received) = sync_channel(1);
    /// let server = Server::builder()
    ///     .data(directory.path().join("spool"))
    ///     .listen("lines+tcp://127.0.0.1:0")
    ///     .handler("print", move |messages: Messages<'_>| -> Result<(), HandlerError> {
    ///         for message in messages {
    ///             println!("{}: {}", message.listener, String::from_utf8_lossy(message.bytes));
    ///             first.send(message.bytes.to_vec())?;
    ///         }
    ///         Ok(())
    ///     })
    ///     .start()?;
    /// // It serves. Port 0 has become a port that was free.
    /// let Some(bbq_server::Address::Tcp(address)) = server.addresses().first() else { unreachable!() };
    /// # use std::io::Write;
    /// std::net::TcpStream::connect(address)?.write_all(b"hello\n")?;
    /// assert_eq!(received.recv()?, b"hello");
    /// server.stop();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The process stays the program's: signals are left alone unless [`ServerBuilder::stop_on_signals`] is called, and there is
    /// no reload and no upgrade. The log goes to `tracing`. The start raises the soft limit of file descriptors to the hard one. A
    /// panic in a thread of the server, which is a defect, stops the server; one in a handler does not.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            file: None,
            listen: Vec::new(),
            readers: Vec::new(),
            sinks: Vec::new(),
            settings: Vec::new(),
            handlers: Vec::new(),
            stops_on_signals: false,
        }
    }
}

impl ServerBuilder {
    /// Reads a TOML file, as `bbq serve --config` does. What is set here overrides it.
    pub fn config_file(mut self, path: impl AsRef<Path>) -> ServerBuilder {
        self.file = Some(path.as_ref().to_owned());
        self
    }

    /// The data directory: the spool, and how far each handler is. One server at a time has it.
    pub fn data(self, directory: impl AsRef<Path>) -> ServerBuilder {
        let directory = directory.as_ref().display().to_string();
        self.set("data", directory)
    }

    /// Adds what to listen on, by SPEC, such as `bbq+tcp://0.0.0.0:7700`.
    pub fn listen(mut self, spec: impl Into<String>) -> ServerBuilder {
        self.listen.push(spec.into());
        self
    }

    /// Adds files to read, by SPEC, such as `file:/var/log/nginx/*.log`.
    pub fn read(mut self, spec: impl Into<String>) -> ServerBuilder {
        self.readers.push(spec.into());
        self
    }

    /// How many threads receive messages; as many lanes are in the spool. The default is one for each processor.
    pub fn workers(self, workers: usize) -> ServerBuilder {
        self.set("workers", workers.to_string())
    }

    /// Adds a sink beside the handlers, by SPEC, such as `file:/var/log/all.log`. It also gets every message.
    pub fn sink(mut self, spec: impl Into<String>) -> ServerBuilder {
        self.sinks.push(spec.into());
        self
    }

    /// Sets a key of the configuration file, such as `spool.bytes_max` to `1GiB`, or `admin` to `127.0.0.1:7790`.
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> ServerBuilder {
        self.settings.push((key.into(), value.into()));
        self
    }

    /// Adds a handler, which gets every message, in a thread of its own. Each lane is in order, and so is each stream.
    ///
    /// How far it is is kept under its name, 1 to 200 bytes: another name is another handler, and gets everything that is still in
    /// the spool.
    pub fn handler(self, name: impl Into<String>, handler: impl Handler + 'static) -> ServerBuilder {
        let mut handler = Some(handler);
        self.pool(name.into(), 1, move |_| {
            handler.take().map(|handler| Box::new(handler) as Box<dyn Handler>)
        })
    }

    /// Adds a pool of 1 to 1,024 handlers, made by `make` from their index. Each has a thread, and the lanes `index`,
    /// `index + count`, and so on: more handlers than workers have nothing to do.
    ///
    /// Each lane is in order, and so is each stream, as its messages that are not handled yet are in one lane. After the number of
    /// workers was changed, the order of a stream holds only with one handler until what the earlier workers left is handled.
    pub fn handlers<H: Handler + 'static>(
        self,
        name: impl Into<String>,
        count: usize,
        mut make: impl FnMut(usize) -> H,
    ) -> ServerBuilder {
        self.pool(name.into(), count, move |index| Some(Box::new(make(index))))
    }

    fn pool(
        mut self,
        name: String,
        count: usize,
        make: impl FnMut(usize) -> Option<Box<dyn Handler>>,
    ) -> ServerBuilder {
        // One more than may be, so that the start can say so.
        self.handlers.push((name, (0..count.min(HANDLERS_MAX + 1)).filter_map(make).collect()));
        self
    }

    /// SIGTERM and SIGINT stop the server, so that [`Server::wait`] returns. From the start on, they no longer end the process.
    pub fn stop_on_signals(mut self) -> ServerBuilder {
        self.stops_on_signals = true;
        self
    }

    /// Opens everything and starts serving. Returns when every listener is open: the server is ready.
    ///
    /// # Errors
    /// A mistake in what is set, or the first thing that cannot be opened. Nothing runs then.
    pub fn start(self) -> Result<Server, StartError> {
        let signals = Signals::of_program(self.stops_on_signals).map_err(StartError::Signals)?;
        let config = self.into_config()?;
        Server::start_in(Host::Program, config, signals)
    }

    fn into_config(self) -> Result<Config, ConfigError> {
        let mut overrides = Overrides::new();
        for (key, value) in self.settings {
            overrides.entry(known_option(&key)?.key).or_default().push(value);
        }
        for (key, specs) in [("listen", self.listen), ("read", self.readers), ("sink", self.sinks)] {
            if !specs.is_empty() {
                overrides.entry(key).or_default().extend(specs);
            }
        }
        let mut config = Config::load_embedded(&KINDS, self.file.as_deref(), &overrides)?;
        for (name, handlers) in self.handlers {
            checked_name(&name).map_err(ConfigError::new)?;
            if handlers.is_empty() || handlers.len() > HANDLERS_MAX {
                return Err(ConfigError::new(format!("{name:?}: a pool has 1 to {HANDLERS_MAX} handlers")));
            }
            config.sinks.push(handler_spec(&name, handlers));
        }
        config.check()?;
        Ok(config)
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.handlers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ServerBuilder")
            .field("listen", &self.listen)
            .field("handlers", &names)
            .finish_non_exhaustive()
    }
}
