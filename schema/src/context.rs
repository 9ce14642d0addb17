//! What a resolver finds beside its arguments: the services, the viewer, the request. Not for rules.

use std::net::IpAddr;

use async_graphql::{Context, Result};
use domain::Services;
use domain::users::{Role, Session};

use crate::error::{forbidden, unauthenticated};

/// What the transport knows of a request.
#[derive(Clone, Debug)]
pub struct RequestMeta {
    /// The client's address; behind a trusted proxy, the one that the proxy tells.
    pub ip: IpAddr,
    /// The client's fingerprint from `X-Device-Id`, `None` when it sends none.
    pub device_id: Option<String>,
    /// Names the request in answers and logs.
    pub request_id: String,
    /// Names the trace that the request belongs to.
    pub trace_id: String,
}

/// Short ways to what the transport put into the context.
pub trait ContextExt {
    /// The domain.
    fn services(&self) -> &Services;
    /// Who is signed in, `None` when nobody is.
    fn viewer(&self) -> Option<&Session>;
    /// Who is signed in.
    ///
    /// # Errors
    /// `UNAUTHENTICATED` when nobody is.
    fn require_viewer(&self) -> Result<&Session>;
    /// Who is signed in, if he has one of these roles.
    ///
    /// # Errors
    /// `UNAUTHENTICATED`, `FORBIDDEN`.
    fn require_role(&self, roles: &[Role]) -> Result<&Session>;
    /// What is known of the request.
    fn meta(&self) -> &RequestMeta;
}

impl ContextExt for Context<'_> {
    fn services(&self) -> &Services {
        self.data_unchecked::<Services>()
    }

    fn viewer(&self) -> Option<&Session> {
        self.data_opt::<Option<Session>>().and_then(Option::as_ref)
    }

    fn require_viewer(&self) -> Result<&Session> {
        self.viewer().ok_or_else(unauthenticated)
    }

    fn require_role(&self, roles: &[Role]) -> Result<&Session> {
        let session = self.require_viewer()?;
        if roles.contains(&session.role) {
            Ok(session)
        } else {
            Err(forbidden())
        }
    }

    fn meta(&self) -> &RequestMeta {
        self.data_unchecked::<RequestMeta>()
    }
}
