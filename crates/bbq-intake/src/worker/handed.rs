//! Takes the sessions and numbered requests that other workers hand over (see `handover`).

use std::rc::Rc;

use tokio::task::spawn_local;

use super::handover::{Handed, SessionInbox};
use super::intake::Intake;
use super::numbered;
use super::session::quiet::QuietSessions;
use super::session::tasks;

/// Continues the sessions and requests that other workers hand over, until the server stops.
pub(super) async fn serve(mut inbox: SessionInbox, intake: Rc<Intake>, quiet: Rc<QuietSessions>) {
    loop {
        let handed = tokio::select! {
            biased;
            () = intake.stopping.wait() => return,
            handed = inbox.recv() => handed,
        };
        match handed {
            Some(Handed::Session(session)) => {
                spawn_local(tasks::serve_handed(&intake, Rc::clone(&quiet), *session));
            }
            Some(Handed::Request(request)) => numbered::serve_handed(&intake, *request),
            None => return,
        }
    }
}
