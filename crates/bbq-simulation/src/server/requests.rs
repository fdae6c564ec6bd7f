//! Numbered requests of HTTP at the server: each is appended at the worker of its stream's home, and answered when it is on disk. What is
//! around them (HTTP itself, patience, memory) is not simulated.

use bbq_intake::simulated::{NotKept, NumberedRequest, RequestStep};
use bbq_wire::StreamId;

use super::Server;
use super::open_request::{Answer, OpenRequest, Place};
use crate::bug::Bug;
use crate::note;
use crate::trace::Trace;

impl Server {
    /// Takes a request, which gets this number. An answer is returned if it comes at once.
    pub(crate) fn request(
        &mut self,
        number: u64,
        token: &str,
        (stream, first): (StreamId, u64),
        records: &[String],
        trace: &mut Trace,
    ) -> Option<Answer> {
        if self.is_stopping {
            return Some(Answer::Later);
        }
        let worker = self.random.index(self.workers.len());
        let context = self.workers[worker].context(&self.shared, self.now_ns());
        let records = records.iter().map(String::as_bytes);
        match NumberedRequest::open(&context, (stream, first), Some(token), records) {
            Ok(request) => {
                let place = Place::Appending(request);
                self.requests.push(OpenRequest { number, stream, worker, place, has_moved: false });
                None
            }
            Err(why) => {
                note!(trace, "server refuses request {number}: {why}");
                Some(Answer::Forbidden)
            }
        }
    }

    /// Goes on with all requests, and returns the answers.
    pub(crate) fn answer(&mut self) -> Vec<(u64, Answer)> {
        let mut answers = Vec::new();
        for mut open in std::mem::take(&mut self.requests) {
            match self.go_on(&mut open) {
                Some(answer) => answers.push((open.number, answer)),
                None => self.requests.push(open),
            }
        }
        answers
    }

    /// Whether it still has a request. Those of an earlier process are gone.
    pub(crate) fn has_request(&self, number: u64) -> bool {
        self.requests.iter().any(|open| open.number == number)
    }

    fn go_on(&mut self, open: &mut OpenRequest) -> Option<Answer> {
        let now_ns = self.now_ns();
        if let Place::Appending(request) = &mut open.place {
            let step = request.step(&self.workers[open.worker].context(&self.shared, now_ns));
            self.lost_order.extend(request.order_lost.map(|_| open.stream));
            match step {
                RequestStep::Kept(kept) => open.place = Place::Durable(kept),
                RequestStep::AwaitRoom => return None,
                RequestStep::HandOver(lane) if !open.has_moved && (lane as usize) < self.workers.len() => {
                    (open.worker, open.has_moved) = (lane as usize, true);
                    return None;
                }
                RequestStep::Refused(NotKept::Gap { expected }) => return Some(Answer::Gap { expected }),
                RequestStep::HandOver(_) | RequestStep::Refused(_) => return Some(Answer::Later),
            }
        }
        let Place::Durable(kept) = &open.place else { return None };
        // The planted bug: what is known is taken for stored, although it may be in the memory of a lane that failed.
        if self.options.bug == Some(Bug::KnownCountsAsDurable) && kept.duplicates > 0 {
            return Some(Answer::Stored);
        }
        kept.durable_now().map(|is_durable| if is_durable { Answer::Stored } else { Answer::Later })
    }
}
