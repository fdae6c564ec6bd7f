//! What a request of a sender asks for, and how it is served.

use bbq_senders::{Answer, Request as Asked, elasticsearch, loki, parameter, splunk};
use bbq_spec::unix_ns;
use bbq_stored::Identity;
use bbq_wire::limits::BATCH_BODY_BYTES_MAX;
use hyper::body::Incoming;
use hyper::header::HOST;
use hyper::{Method, Request, Response, StatusCode};

use super::answer::{Answered, Stop, refused, response};
use crate::worker::http::authorization::authorized;
use crate::worker::http::body::HeldBody;
use crate::worker::http::headers;
use crate::worker::http::open::Activity;
use crate::worker::http::refused::Refused;
use crate::worker::http::response_body::ResponseBody;
use crate::worker::http::source::Source;

/// The name of a channel of Splunk.
pub(super) const CHANNEL: &str = "x-splunk-request-channel";
/// One for all workers, as a sender asks over any connection.
pub(super) static ACKS: splunk::Acks = splunk::Acks::new();

impl Source {
    /// Responds to a request whose path is a sender's.
    pub(in crate::worker::http) async fn respond_to_sender(
        &self,
        request: Request<Incoming>,
        activity: &Activity,
    ) -> Response<ResponseBody> {
        let (is_head, path) = (request.method() == Method::HEAD, request.uri().path());
        let Ok(Some(asked)) = bbq_senders::request(request.method().as_str(), path) else {
            // The route is none of a sender.
            return response(elasticsearch::no_search().into(), is_head);
        };
        match self.serve_sender(&asked, request, activity).await {
            Ok(answered) => response(answered, is_head),
            Err(Stop::Rejected(answer, why)) => {
                self.listener().report_request(self.peer, &why);
                response(answer.into(), is_head)
            }
            Err(Stop::Refused(why)) => {
                self.report(&why);
                if why.status() == StatusCode::SERVICE_UNAVAILABLE {
                    self.overhead.add_unread_body();
                }
                let mut response = response(refused(&asked, &why).into(), is_head);
                response.headers_mut().extend(why.header());
                response
            }
        }
    }

    async fn serve_sender(
        &self,
        asked: &Asked,
        request: Request<Incoming>,
        activity: &Activity,
    ) -> Result<Answered, Stop> {
        // Those who look whether a server is there show no token, as at the servers whose paths these are.
        match asked {
            Asked::Loki(loki::Asked::Ready) => return Ok(loki::ready(self.has_room_now()).into()),
            Asked::Splunk(splunk::Asked::Health) => return Ok(splunk::health(self.has_room_now()).into()),
            _ => {}
        }
        let admission = authorized(self.listener(), request.headers())?;
        let identity = Identity::of(admission.as_ref().map(|shown| shown.identity()), self.peer);
        activity.set_identity(&identity);
        match asked {
            Asked::Loki(loki::Asked::Build) => Ok(loki::build().into()),
            Asked::Elasticsearch(elasticsearch::Asked::Search) => {
                self.listener()
                    .report_request(self.peer, "it asks for documents, and bbq is no search engine");
                Ok(elasticsearch::no_search().into())
            }
            Asked::Elasticsearch(elasticsearch::Asked::Setup) => {
                Ok(self.set_up(request, identity).await?.into())
            }
            Asked::Journal => self.take_upload(request, (admission.as_deref(), identity)).await,
            Asked::Splunk(splunk::Asked::Ack) => Ok(self.acks(request, identity).await?.into()),
            _ => self.take_of_sender(asked, request, (admission.as_deref(), identity)).await,
        }
    }

    /// Whether the next request would find room.
    fn has_room_now(&self) -> bool {
        let lane = &self.intake.disk.lane;
        self.intake.has_room(self.listener_index) && !lane.is_waiting_for_space() && lane.failure().is_none()
    }

    /// Answers what a program asks of Elasticsearch before it sends. What it brings is read, as otherwise it may not read the answer.
    async fn set_up(&self, request: Request<Incoming>, identity: Identity) -> Result<Answer, Stop> {
        self.check_rate()?;
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
        let authority = || request.uri().authority().map_or(String::new(), ToString::to_string);
        let host = host.unwrap_or_else(authority);
        let is_question = matches!(*request.method(), Method::GET | Method::HEAD);
        let path = request.uri().path().to_owned();
        drop(self.read_body(request, identity).await?);
        Ok(elasticsearch::setup(is_question, &path, &host))
    }

    /// Answers which numbers of acknowledgements are safe.
    async fn acks(&self, request: Request<Incoming>, identity: Identity) -> Result<Answer, Stop> {
        self.check_rate()?;
        channel(&request, true)?;
        let body = self.read_body(request, identity).await?;
        let answer = ACKS.answer(&body.bytes, unix_ns() / 1000);
        answer.map_err(|why| Stop::Rejected(why.answer(), why.to_string()))
    }

    async fn read_body(&self, request: Request<Incoming>, identity: Identity) -> Result<HeldBody, Refused> {
        let coding = headers::coding(request.headers())?;
        let limits = (coding, BATCH_BODY_BYTES_MAX as usize);
        HeldBody::read(self, identity, request.into_body(), limits).await
    }
}

/// Whether a request of Splunk's protocol has a channel.
pub(super) fn channel(request: &Request<Incoming>, is_needed: bool) -> Result<bool, Stop> {
    let header = request.headers().get(CHANNEL).map(|value| value.to_str().unwrap_or_default());
    let query = parameter(request.uri().query().unwrap_or_default(), "channel");
    let found = splunk::channel(header, query.as_deref(), is_needed);
    found.map(|channel| channel.is_some()).map_err(|why| Stop::Rejected(why.answer(), why.to_string()))
}
