//! What an outlet goes through: which server is next, what the end of a connection leaves to do, and how long to wait before
//! another one. No socket, no clock, no thread.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bbq_wire::session::{RefusalCode, Welcome};

use crate::link::{Done, Link};
use crate::outlet::Outlet;
use crate::queue::Repair;
use crate::rotation::Rotation;
use crate::session::Trouble;
use crate::shared::Shared;
use crate::{Notice, SendError, ServerAddress};

/// What was refused, or broken by the server, so often without an acknowledgement in between lasts, as far as can be told.
const IN_VAIN_MAX: u32 = 3;

/// What an outlet has been through.
pub(crate) struct Course {
    rotation: Rotation,
    /// Whether the last notice was good news; a change is told, not each try.
    told: Option<bool>,
    /// A server has welcomed it.
    was_welcome: bool,
    /// Connections that were refused or broken since the last acknowledgement.
    in_vain: u32,
    /// What was acknowledged when the present connection began.
    before: u64,
}

/// What to do when a connection has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum After {
    /// Make another one.
    Again,
    /// The same, after so long.
    Wait(Duration),
    /// Nothing: no server will ever take anything, or all is done.
    Over,
}

impl Course {
    /// Of an outlet with so many servers.
    pub(crate) fn new(servers: usize) -> Course {
        let rotation = Rotation::new(servers);
        Course { rotation, told: None, was_welcome: false, in_vain: 0, before: 0 }
    }

    /// The server whose turn it is.
    pub(crate) fn server(&self) -> usize {
        self.rotation.present()
    }

    /// Whether a server that is preferred to it may come back.
    pub(crate) fn is_substitute(&self) -> bool {
        self.rotation.is_substitute()
    }

    /// A connection is about to be made.
    pub(crate) fn begin(&mut self, outlet: &Outlet, shared: &Shared) {
        outlet.present.store(self.server() as u64, Ordering::Relaxed);
        self.before = shared.queue.acknowledged_by(outlet.index);
    }

    /// The server has welcomed the outlet at the time `now`, by any clock that does not jump.
    pub(crate) fn welcomed(
        &mut self,
        outlet: &Outlet,
        shared: &Shared,
        welcome: &Welcome,
        now: Duration,
    ) -> Result<Link, Trouble> {
        self.was_welcome = true;
        let address = outlet.address(self.server());
        shared.begin_connection(outlet.index, self.server(), welcome, address)?;
        outlet.connected.store(true, Ordering::Relaxed);
        self.tell(shared, &Notice::Connected { server: address.to_string() });
        Ok(Link::new(outlet.index, now))
    }

    /// A connection has ended, or could not be made.
    pub(crate) fn end(&mut self, outlet: &Outlet, shared: &Shared, outcome: Result<Done, Trouble>) -> After {
        outlet.connected.store(false, Ordering::Relaxed);
        let has_taken = shared.queue.acknowledged_by(outlet.index) > self.before;
        if has_taken {
            self.in_vain = 0;
        }
        let trouble = match outcome {
            Ok(Done::End) => return After::Over,
            Ok(Done::Preferred) => {
                self.rotation.back_to_preferred();
                return After::Again;
            }
            Ok(Done::NextStream) => {
                shared.queue.next_stream(outlet.index);
                return After::Again;
            }
            Err(trouble) => trouble,
        };
        let server = outlet.address(self.server());
        let why = match self.judge(outlet, shared, server, trouble) {
            Ok(why) => why,
            Err(error) => {
                let notice = Notice::Ended { server: server.to_string(), why: error.to_string() };
                self.tell(shared, &notice);
                // Whoever has taken the stream over would do so everywhere.
                if is_taken_over(&error) || !self.rotation.refuse() {
                    shared.fail(outlet.index, &error);
                    return After::Over;
                }
                error.to_string()
            }
        };
        self.tell(shared, &Notice::Unreachable { server: server.to_string(), why });
        outlet.reconnects.fetch_add(1, Ordering::Relaxed);
        // A welcome alone is no success: a server whose disk failed welcomes, too, and then refuses.
        if self.rotation.go_on(has_taken) { After::Wait(outlet.reconnect().failed()) } else { After::Again }
    }

    /// Tells the application when good became bad or bad became good.
    fn tell(&mut self, shared: &Shared, notice: &Notice) {
        let good = matches!(notice, Notice::Connected { .. });
        if self.told.replace(good) != Some(good) || matches!(notice, Notice::Ended { .. }) {
            shared.tell(notice);
        }
    }

    /// Does what there is to do about it before another try; `Err` is the end of the server.
    fn judge(
        &mut self,
        outlet: &Outlet,
        shared: &Shared,
        server: &ServerAddress,
        trouble: Trouble,
    ) -> Result<String, SendError> {
        let error = match trouble {
            Trouble::Passing(why) => return Ok(why),
            // The spool is this sender's alone, and yet the stream was used with a later epoch: what it knows is old.
            Trouble::Final(error) if is_taken_over(&error) && shared.has_spool() && !self.was_welcome => {
                shared.begin_stream(outlet.index, server, "its stream is used by another sender");
                return Ok(error.to_string());
            }
            Trouble::Final(error) => return Err(error),
            Trouble::Lasting(error) if shared.options.end_on_lasting_errors => return Err(error),
            Trouble::Lasting(error) => return Ok(error.to_string()),
            Trouble::Broken(error) => {
                shared.protocol_errors.fetch_add(1, Ordering::Relaxed);
                error
            }
            Trouble::Refused(error, code) => {
                let (records, how) = match shared.queue.repair(outlet.index, code) {
                    Repair::None => (0, ""),
                    Repair::Rebuilt => (0, "; its bytes had changed in memory, and it is made again"),
                    Repair::Damaged(records) => (records, "; its bytes had changed in memory"),
                    Repair::Refused => (1, ""),
                };
                let why = format!("{error}{how}");
                if records > 0 {
                    self.in_vain = 0;
                    shared.tell(&Notice::Lost { server: server.to_string(), records, why });
                }
                error
            }
        };
        self.in_vain += 1;
        let lasts = self.in_vain >= IN_VAIN_MAX && shared.options.end_on_lasting_errors;
        if lasts { Err(error) } else { Ok(error.to_string()) }
    }
}

/// Whether another connection sends the same stream.
fn is_taken_over(error: &SendError) -> bool {
    matches!(error, SendError::Refused { refusal, .. } if refusal.code == RefusalCode::TakenOver)
}
