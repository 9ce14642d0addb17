//! What one operation may ask for.

/// Limits of the schema.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Production: no introspection, no suggestions in errors.
    pub production: bool,
    /// Deepest nesting of fields.
    pub depth: usize,
    /// Largest cost, where a field costs 1 and a list costs its page size times what is in it.
    pub complexity: usize,
    /// Deepest recursion of the parser.
    pub recursion: usize,
    /// Most directives on one field.
    pub directives: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // GraphiQL's own introspection needs depth 15 and recursion 17.
        Self {
            production: false,
            depth: 16,
            complexity: 5_000,
            recursion: 24,
            directives: 10,
        }
    }
}
