//! Looks at a parsed document before anything else does: a few hundred bytes of fragments can ask for more work than
//! a machine has, and a mutation that is named twice would run twice. What fields cost is `schema`.

use std::collections::{HashMap, HashSet};

use async_graphql::Name;
use async_graphql::parser::types::{
    DocumentOperations, ExecutableDocument, OperationDefinition, OperationType, Selection,
    SelectionSet,
};

/// Selections that a document may have once its fragments stand where they are spread. GraphiQL's introspection has 300.
const MOST_FIELDS: usize = 500;
/// Directives in a document.
const MOST_DIRECTIVES: usize = 50;
/// Fragments in fragments; far above what people write, far below what a stack holds.
const DEEPEST_FRAGMENTS: usize = 24;

/// Why a document is not executed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Refused {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// Checks the document, and tells what kind of operation would run. Where none can be chosen, execution says so, and
/// it counts as a query here.
pub(super) fn check(
    document: &ExecutableDocument,
    name: Option<&str>,
) -> Result<OperationType, Refused> {
    let mut size = Size {
        document,
        fragments: HashMap::new(),
        directives: 0,
    };
    let mut fields = 0_usize;
    for (_, operation) in document.operations.iter() {
        size.directives += operation.node.directives.len();
        fields = fields.saturating_add(size.of(&operation.node.selection_set.node, 0)?);
    }
    // Fragments that nobody spreads are validated, too, and that takes time.
    for name in document.fragments.keys() {
        fields = fields.max(size.of_fragment(name, 0)?);
    }
    if fields > MOST_FIELDS {
        return Err(Refused::new(
            "TOO_COMPLEX",
            format!("the document asks for more than {MOST_FIELDS} fields"),
        ));
    }
    if size.directives > MOST_DIRECTIVES {
        return Err(Refused::new(
            "TOO_COMPLEX",
            format!("the document has more than {MOST_DIRECTIVES} directives"),
        ));
    }
    let Some(operation) = chosen(document, name) else {
        return Ok(OperationType::Query);
    };
    let mut keys = Vec::new();
    root_keys(
        document,
        &operation.selection_set.node,
        &mut HashSet::new(),
        &mut keys,
    );
    match operation.ty {
        OperationType::Query => {}
        OperationType::Mutation => refuse_repeated(&keys)?,
        OperationType::Subscription if keys.len() > 1 => {
            return Err(Refused::new(
                "BAD_INPUT",
                "a subscription has one field; start another one for another field",
            ));
        }
        OperationType::Subscription => {}
    }
    Ok(operation.ty)
}

/// Counts what is selected, each fragment's inside once: what follows walks all of it, also where no field stands.
struct Size<'a> {
    document: &'a ExecutableDocument,
    /// `None` while it is being counted: meeting it then is a cycle.
    fragments: HashMap<&'a Name, Option<usize>>,
    directives: usize,
}

impl<'a> Size<'a> {
    fn of(&mut self, selections: &'a SelectionSet, depth: usize) -> Result<usize, Refused> {
        let mut fields = 0_usize;
        for selection in &selections.items {
            let (directives, inside) = match &selection.node {
                Selection::Field(field) => (
                    &field.node.directives,
                    1 + self.of(&field.node.selection_set.node, depth)?,
                ),
                Selection::InlineFragment(fragment) => (
                    &fragment.node.directives,
                    1 + self.of(&fragment.node.selection_set.node, depth)?,
                ),
                Selection::FragmentSpread(spread) => (
                    &spread.node.directives,
                    1 + self.of_fragment(&spread.node.fragment_name.node, depth + 1)?,
                ),
            };
            self.directives += directives.len();
            fields = fields.saturating_add(inside);
        }
        Ok(fields)
    }

    fn of_fragment(&mut self, name: &'a Name, depth: usize) -> Result<usize, Refused> {
        if depth > DEEPEST_FRAGMENTS {
            return Err(Refused::new(
                "TOO_COMPLEX",
                format!("fragments are more than {DEEPEST_FRAGMENTS} deep in each other"),
            ));
        }
        match self.fragments.get(name) {
            Some(Some(fields)) => return Ok(*fields),
            Some(None) => {
                return Err(Refused::new(
                    "BAD_INPUT",
                    format!("the fragment `{name}` is a part of itself"),
                ));
            }
            None => {}
        }
        let Some(fragment) = self.document.fragments.get(name) else {
            return Err(Refused::new(
                "BAD_INPUT",
                format!("there is no fragment `{name}` in the document"),
            ));
        };
        self.fragments.insert(name, None);
        let fields = self.of(&fragment.node.selection_set.node, depth)?;
        self.fragments.insert(name, Some(fields));
        Ok(fields)
    }
}

fn chosen<'a>(
    document: &'a ExecutableDocument,
    name: Option<&str>,
) -> Option<&'a OperationDefinition> {
    match (&document.operations, name) {
        (DocumentOperations::Single(operation), _) => Some(&operation.node),
        (DocumentOperations::Multiple(operations), Some(name)) => {
            operations.get(name).map(|operation| &operation.node)
        }
        // The parser calls one operation that has a name `Multiple`, too.
        (DocumentOperations::Multiple(operations), None) => {
            let mut all = operations.values();
            let only = all.next().map(|operation| &operation.node);
            only.filter(|_| all.next().is_none())
        }
    }
}

/// The names under which the root's fields answer, as often as they stand there.
fn root_keys<'a>(
    document: &'a ExecutableDocument,
    selections: &'a SelectionSet,
    seen: &mut HashSet<&'a Name>,
    keys: &mut Vec<&'a Name>,
) {
    for selection in &selections.items {
        match &selection.node {
            Selection::Field(field) => keys.push(&field.node.response_key().node),
            Selection::InlineFragment(fragment) => {
                root_keys(document, &fragment.node.selection_set.node, seen, keys)
            }
            Selection::FragmentSpread(spread) => {
                let name = &spread.node.fragment_name.node;
                let Some(fragment) = document.fragments.get(name) else {
                    continue;
                };
                if seen.insert(name) {
                    root_keys(document, &fragment.node.selection_set.node, seen, keys);
                } else {
                    // Spread twice, it names all of its fields twice; one of them tells.
                    keys.extend(keys.first().copied());
                }
            }
        }
    }
}

/// The library runs a field that stands twice two times, where the specification wants once.
fn refuse_repeated(keys: &[&Name]) -> Result<(), Refused> {
    let mut seen = HashSet::new();
    match keys.iter().find(|key| !seen.insert(**key)) {
        Some(key) => Err(Refused::new(
            "BAD_INPUT",
            format!("`{key}` stands twice in the mutation; give the second one an alias"),
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use async_graphql::parser::parse_query;
    use async_graphql::parser::types::OperationType;

    use super::check;

    fn kind(query: &str, name: Option<&str>) -> Result<OperationType, &'static str> {
        check(&parse_query(query).unwrap(), name).map_err(|refused| refused.code)
    }

    #[test]
    fn fragments_that_double_each_other_are_refused_at_once() {
        let doubling: String = (0..20)
            .map(|i| format!("fragment f{i} on Query {{ ...f{} ...f{} }}", i + 1, i + 1))
            .collect();
        let bomb = format!("{{ ...f0 }} {doubling} fragment f20 on Query {{ a }}");
        assert_eq!(kind(&bomb, None), Err("TOO_COMPLEX"));
        assert_eq!(
            kind(&bomb.replace("{ ...f0 }", "{ a }"), None),
            Err("TOO_COMPLEX")
        );
        // Also one whose last fragment is not there.
        let hollow = format!("{{ a ...f0 }} {doubling}");
        assert_eq!(kind(&hollow, None), Err("BAD_INPUT"));
    }

    #[test]
    fn cycles_and_endless_chains_are_refused() {
        assert_eq!(
            kind("{ ...a } fragment a on Query { b { ...a } }", None),
            Err("BAD_INPUT")
        );
        let chain: String = (0..3000)
            .map(|i| format!("fragment f{i} on Query {{ ...f{} }}", i + 1))
            .collect();
        assert_eq!(
            kind(&format!("{{ ...f0 }} {chain}"), None),
            Err("TOO_COMPLEX")
        );
    }

    #[test]
    fn too_many_fields_or_directives_are_refused() {
        assert_eq!(
            kind(&format!("{{ {} }}", "a ".repeat(500)), None),
            Ok(OperationType::Query)
        );
        assert_eq!(
            kind(&format!("{{ {} }}", "a ".repeat(501)), None),
            Err("TOO_COMPLEX")
        );
        assert_eq!(
            kind(&format!("{{ a {} }}", "@b ".repeat(51)), None),
            Err("TOO_COMPLEX")
        );
    }

    #[test]
    fn a_mutation_that_stands_twice_is_refused() {
        assert_eq!(kind("mutation { m m }", None), Err("BAD_INPUT"));
        assert_eq!(kind("mutation { m ... { m } }", None), Err("BAD_INPUT"));
        assert_eq!(
            kind("mutation { ...f ...f } fragment f on Mutation { m }", None),
            Err("BAD_INPUT")
        );
        assert_eq!(
            kind("mutation { a: m b: m }", None),
            Ok(OperationType::Mutation)
        );
    }

    #[test]
    fn the_named_operation_decides() {
        let document = "query Q { a } mutation M { m } subscription S { s t }";
        assert_eq!(kind(document, Some("M")), Ok(OperationType::Mutation));
        assert_eq!(kind(document, Some("S")), Err("BAD_INPUT"));
        assert_eq!(kind(document, None), Ok(OperationType::Query));
        assert_eq!(kind(document, Some("X")), Ok(OperationType::Query));
    }

    #[test]
    fn an_operation_alone_is_meant_though_nobody_names_it() {
        assert_eq!(kind("mutation M { m }", None), Ok(OperationType::Mutation));
        assert_eq!(kind("mutation M { m m }", None), Err("BAD_INPUT"));
        assert_eq!(
            kind("subscription S { s }", None),
            Ok(OperationType::Subscription)
        );
    }
}
