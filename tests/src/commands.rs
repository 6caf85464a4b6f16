//! The commands of the program, read from its help.

/// Returns the arguments of every command that has no further commands, with a value for each positional argument. `help` returns
/// what the program prints for such arguments. A command whose help has no usage is left out.
pub fn all(mut help: impl FnMut(&[String]) -> String) -> Vec<Vec<String>> {
    let (mut found, mut open) = (Vec::new(), vec![Vec::<String>::new()]);
    while let Some(mut command) = open.pop() {
        let words: Vec<String> = command.iter().cloned().chain(["--help".to_owned()]).collect();
        let help = help(&words);
        let Some(usage) = help.lines().find_map(|line| line.strip_prefix("Usage: ")) else { continue };
        if usage.contains("<COMMAND>") {
            // Commands stand under one heading or several, and before the options.
            let rows = help.lines().take_while(|line| *line != "Options:");
            let rows = rows.filter_map(|line| line.strip_prefix("  "));
            let rows = rows.filter(|row| row.starts_with(|first: char| first.is_ascii_lowercase()));
            let names = rows.filter_map(|row| row.split(' ').next());
            let further = names.filter(|name| *name != "help").map(str::to_owned);
            open.extend(further.map(|name| command.iter().cloned().chain([name]).collect()));
            continue;
        }
        let is_execution = command.first().is_some_and(|name| name == "executions");
        let values = usage.split(' ').filter(|word| word.starts_with('<')).map(|word| match word {
            "<SHELL>" => "bash",
            "<JSON>" => "1",
            "<SCOPE>" => "shared",
            "<ID|FILE>" | "<AUTOMATION>" => "hello",
            "<ID>" if is_execution => "latest",
            "<ID>" => "hello",
            "<TO>" => "made",
            _ => "x",
        });
        command.extend(values.map(str::to_owned));
        found.push(command);
    }
    found
}
