//! The newest few of each of many notes, in one question to the database.

use sea_orm::sea_query::{Asterisk, Query, SelectStatement, UnionType};

/// All rows of all these selections. Each stands in parentheses of its own, as its order and its limit are its own; the
/// order of the whole is nobody's.
pub(super) fn all_of(parts: Vec<SelectStatement>) -> Option<SelectStatement> {
    let wrapped = parts.into_iter().enumerate().map(|(number, part)| {
        let mut select = Query::select();
        select.column(Asterisk);
        select.from_subquery(part, format!("part_{number}"));
        select
    });
    wrapped.reduce(|mut all, next| {
        all.union(UnionType::All, next);
        all
    })
}
