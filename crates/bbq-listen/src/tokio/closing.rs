//! An application of axum whose answers close their connections from the stop on.
//!
//! Otherwise hyper closes a connection as idle while its client's next request is on its way, which so gets no answer.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll, ready as ready_or_return};

use axum::Router;
use axum::extract::Request;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Version};
use axum::response::Response;
use axum::routing::future::RouteFuture;
use axum::serve::{IncomingStream, Listener};
use tower_service::Service;

/// The application, and whether the server was told to stop.
#[derive(Debug, Clone)]
pub(crate) struct Closing<Stopping> {
    app: Router,
    stopping: Stopping,
}

/// An answer on its way.
pub(crate) struct Answer<Stopping> {
    route: RouteFuture<Infallible>,
    /// `None` for HTTP/2, which has its own way to end a connection.
    stopping: Option<Stopping>,
}

impl<Stopping> Closing<Stopping> {
    pub(crate) fn new(app: Router, stopping: Stopping) -> Self {
        // The state is put in once, and not for each request, as axum itself does it.
        Self { app: app.with_state(()), stopping }
    }
}

impl<L: Listener, Stopping: Clone> Service<IncomingStream<'_, L>> for Closing<Stopping> {
    type Response = Self;
    type Error = Infallible;
    type Future = Ready<Result<Self, Infallible>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _connection: IncomingStream<'_, L>) -> Self::Future {
        ready(Ok(self.clone()))
    }
}

impl<Stopping: Fn() -> bool + Clone + Unpin> Service<Request> for Closing<Stopping> {
    type Response = Response;
    type Error = Infallible;
    type Future = Answer<Stopping>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // That of a router is always so.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Answer<Stopping> {
        let stopping = (request.version() < Version::HTTP_2).then(|| self.stopping.clone());
        Answer { route: self.app.call(request), stopping }
    }
}

impl<Stopping: Fn() -> bool + Unpin> Future for Answer<Stopping> {
    type Output = Result<Response, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = ready_or_return!(Pin::new(&mut self.route).poll(context))?;
        // One that upgrades its connection says something else.
        if self.stopping.as_ref().is_some_and(|stopping| stopping())
            && !answer.headers().contains_key(CONNECTION)
        {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Poll::Ready(Ok(answer))
    }
}
