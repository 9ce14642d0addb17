//! What tests stand on: a server of their own on stores of their own, and clients that speak to it as users do.
//! No test lives here, and nothing here knows more of the product than its public names.

pub(crate) mod app;
pub(crate) mod client;
pub(crate) mod code_inbox;
pub(crate) mod people;
pub(crate) mod private;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod quiet;
pub(crate) mod sale;
pub(crate) mod stores;
pub(crate) mod subscription;
pub(crate) mod wait;
