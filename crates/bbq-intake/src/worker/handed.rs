//! Takes the sessions and numbered requests that other workers hand over, and the batches of readers (see `handover`).

use std::pin::pin;
use std::rc::Rc;

use tokio::task::spawn_local;
use tokio::time::sleep_until;

use super::handover::{Handed, SessionInbox};
use super::intake::Intake;
use super::numbered;
use super::read;
use super::session::quiet::QuietSessions;
use super::session::tasks;

/// Continues what other workers and readers hand over, until the server stops and no worker takes requests.
pub(super) async fn serve(mut inbox: SessionInbox, intake: Rc<Intake>, quiet: Rc<QuietSessions>) {
    let stopped = async {
        intake.stopping.wait().await;
        if let Some(end) = intake.stopping.grace_end() {
            sleep_until(end).await;
        }
    };
    let mut stopped = pin!(stopped);
    loop {
        let handed = tokio::select! {
            biased;
            () = &mut stopped => return,
            handed = inbox.recv() => handed,
        };
        match handed {
            Some(Handed::Session(session)) => {
                spawn_local(tasks::serve_handed(&intake, Rc::clone(&quiet), *session));
            }
            Some(Handed::Request(request)) => numbered::serve_handed(&intake, *request),
            Some(Handed::Read(read)) => read::serve_handed(&intake, read),
            None => return,
        }
    }
}
