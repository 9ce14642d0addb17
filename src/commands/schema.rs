//! `schema`: the GraphQL schema as text. Needs no store and no configuration.

/// What `schema` can be told: nothing.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

#[expect(clippy::print_stdout, reason = "the output of the command")]
pub(crate) fn run(_args: Args) -> anyhow::Result<()> {
    print!("{}", ::schema::sdl());
    Ok(())
}
