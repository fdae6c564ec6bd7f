//! `bbq top` in a build without it.

use anyhow::bail;

use crate::arguments::TopArguments;
use crate::outcome::Outcome;

pub(crate) fn run(_arguments: &TopArguments) -> anyhow::Result<Outcome> {
    bail!(
        "this bbq was built without `top`; packages of bbq have it; otherwise build it with the feature: cargo install bbq --features \
         top (or full, for everything). `bbq status` and the page of the admin show the same"
    )
}
