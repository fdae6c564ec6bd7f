//! A numbered request on its way to the worker of its stream's home.

use tokio::sync::oneshot;

use super::batch::{Kept, NotKept};
use super::request::NumberedRequest;

/// See the module.
pub(crate) struct HandedRequest {
    pub(super) request: NumberedRequest,
    pub(super) reply: oneshot::Sender<Result<Kept, NotKept>>,
}
