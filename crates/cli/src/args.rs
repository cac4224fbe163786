//! Flags and operands. A flag is one value that carries its parser, its help and its place
//! in the usage line; what getopt(3) takes is taken: flags anywhere, bundled short flags,
//! values joined or apart, `--` ends them. Manual pages and completions are made of the same values.

use std::fmt::Write;

/// One flag of a command.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// `-x`.
    pub short: Option<char>,
    /// `--xyz`, without the dashes.
    pub long: Option<&'static str>,
    /// What its value is called; none for a switch.
    pub value: Option<&'static str>,
    /// May be given again; the last one counts otherwise.
    pub repeats: bool,
    /// Takes all words up to the next `--xyz`.
    pub list: bool,
    /// May stand at the end without its value.
    pub alone: bool,
    /// One line for people.
    pub help: &'static str,
}

impl Flag {
    /// A switch `-x`.
    pub const fn switch(short: char, help: &'static str) -> Self {
        Self { short: Some(short), long: None, value: None, repeats: false, list: false, alone: false, help }
    }

    /// `-x VALUE`.
    pub const fn value(short: char, value: &'static str, help: &'static str) -> Self {
        Self {
            short: Some(short),
            long: None,
            value: Some(value),
            repeats: false,
            list: false,
            alone: false,
            help,
        }
    }

    /// `--xyz`.
    pub const fn long(long: &'static str, help: &'static str) -> Self {
        Self { short: None, long: Some(long), value: None, repeats: false, list: false, alone: false, help }
    }

    /// `--xyz VALUE`.
    pub const fn long_value(long: &'static str, value: &'static str, help: &'static str) -> Self {
        Self { value: Some(value), ..Self::long(long, help) }
    }

    /// `--xyz VALUE ...`: all words up to the next `--xyz`.
    pub const fn long_list(long: &'static str, value: &'static str, help: &'static str) -> Self {
        Self { list: true, ..Self::long_value(long, value, help) }
    }

    /// Also `--xyz`.
    pub const fn or(mut self, long: &'static str) -> Self {
        self.long = Some(long);
        self
    }

    /// May stand at the end without its value.
    pub const fn or_alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// May be given several times.
    pub const fn repeated(mut self) -> Self {
        self.repeats = true;
        self
    }

    /// `-x` and `--xyz`, those that it has.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let short = self.short.map(|c| format!("-{c}"));
        let long = self.long.map(|l| format!("--{l}"));
        short.into_iter().chain(long)
    }

    /// `-x, --xyz VALUE`.
    pub fn spelling(&self) -> String {
        let value = self.value.map(|v| format!(" {v}")).unwrap_or_default();
        let more = if self.list { " ..." } else { "" };
        format!("{}{value}{more}", self.names().collect::<Vec<_>>().join(", "))
    }

    /// Its own place in a usage line; none for a switch `-x`, which stands with others.
    fn usage(&self) -> Option<String> {
        let name = match (self.short, self.long, self.value) {
            (Some(short), _, Some(_)) => format!("-{short}"),
            (None, Some(long), _) => format!("--{long}"),
            _ => return None,
        };
        let value = self.value.map(|v| if self.alone { format!(" [{v}]") } else { format!(" {v}") });
        let value = value.unwrap_or_default();
        let inner = if self.list { " ..." } else { "" };
        let outer = if self.repeats { " ..." } else { "" };
        Some(format!(" [{name}{value}{inner}]{outer}"))
    }
}

/// A command: what it takes and what it is for.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// Another name it goes by.
    pub alias: Option<&'static str>,
    /// One line for people.
    pub about: &'static str,
    /// Flags, in the order of the usage line.
    pub flags: &'static [Flag],
    /// The operands of the command. Each further line is a whole synopsis: another form of the command.
    pub operands: &'static str,
}

impl Spec {
    /// Returns the forms of the command, separated by a newline and a tab.
    pub fn usage(&self) -> String {
        self.forms().join("\n\t")
    }

    /// `create [-fn] [-o property=value] ... <pool> <vdev> ...`, and the other forms.
    pub fn forms(&self) -> Vec<String> {
        let mut operands = self.operands.lines();
        let mut line = self.name.to_owned();
        let switches: String =
            self.flags.iter().filter(|f| f.value.is_none()).filter_map(|f| f.short).collect();
        if !switches.is_empty() {
            _ = write!(line, " [-{switches}]");
        }
        line.extend(self.flags.iter().filter_map(Flag::usage));
        if let Some(operands) = operands.next() {
            _ = write!(line, " {operands}");
        }
        std::iter::once(line).chain(operands.map(str::to_owned)).collect()
    }

    /// Everything there is to tell.
    pub fn help(&self, program: &str) -> String {
        let mut text = format!("{program} {}: {}\n\nusage:\n\t{}\n", self.name, self.about, self.usage());
        if !self.flags.is_empty() {
            text.push('\n');
        }
        let width = self.flags.iter().map(|f| f.spelling().len()).max().unwrap_or(0);
        for flag in self.flags {
            _ = writeln!(text, "\t{:width$}  {}", flag.spelling(), flag.help);
        }
        text
    }

    /// Splits words into flags and operands. Flags may follow operands, unless the variable
    /// `POSIXLY_CORRECT` is set (getopt(3)).
    ///
    /// # Errors
    /// The reason that goes before the usage line.
    pub fn parse(&self, words: &[String]) -> Result<Args, String> {
        self.parse_in_order(words, std::env::var_os("POSIXLY_CORRECT").is_some())
    }

    fn parse_in_order(&self, words: &[String], are_flags_first: bool) -> Result<Args, String> {
        let mut args = Args { typed: words.to_vec(), given: Vec::new(), operands: Vec::new() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                args.operands.extend(words.by_ref().cloned());
            } else if let Some(long) = word.strip_prefix("--") {
                self.take_long(long, &mut words, &mut args)?;
            } else if let Some(bundle) = word.strip_prefix('-').filter(|b| !b.is_empty()) {
                self.take_bundle(bundle, &mut words, &mut args)?;
            } else {
                args.operands.push(word.clone());
                if are_flags_first {
                    args.operands.extend(words.by_ref().cloned());
                }
            }
        }
        Ok(args)
    }

    fn take_long(
        &self,
        word: &str,
        words: &mut std::slice::Iter<'_, String>,
        args: &mut Args,
    ) -> Result<(), String> {
        let (name, joined) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word, None),
        };
        let flag = self.flags.iter().find(|f| f.long == Some(name));
        let flag = flag.ok_or_else(|| format!("invalid option '{name}'"))?;
        let value = match (flag.value, joined) {
            (None, Some(_)) => return Err(format!("option '{name}' takes no value")),
            (None, None) => None,
            (Some(_), Some(value)) => Some(value),
            (Some(_), None) => {
                Some(words.next().ok_or_else(|| format!("missing argument for '{name}' option"))?.clone())
            }
        };
        args.given.push((*flag, value));
        while flag.list
            && let Some(word) = words.as_slice().first().filter(|word| !word.starts_with("--"))
        {
            args.given.push((*flag, Some(word.clone())));
            words.next();
        }
        Ok(())
    }

    fn take_bundle<'a>(
        &self,
        bundle: &str,
        words: &mut impl Iterator<Item = &'a String>,
        args: &mut Args,
    ) -> Result<(), String> {
        let mut letters = bundle.chars();
        while let Some(letter) = letters.next() {
            let flag = self.flags.iter().find(|f| f.short == Some(letter));
            let flag = flag.ok_or_else(|| format!("invalid option '{letter}'"))?;
            if flag.value.is_none() {
                args.given.push((*flag, None));
                continue;
            }
            let joined = letters.as_str();
            let value = match joined.is_empty() {
                false => Some(joined.to_owned()),
                true => words.next().cloned(),
            };
            if value.is_none() && !flag.alone {
                return Err(format!("missing argument for '{letter}' option"));
            }
            args.given.push((*flag, value));
            break;
        }
        Ok(())
    }
}

/// What was typed after a command's name.
#[derive(Clone, Debug)]
pub struct Args {
    /// All of it, as typed.
    pub typed: Vec<String>,
    given: Vec<(Flag, Option<String>)>,
    /// What is no flag.
    pub operands: Vec<String>,
}

impl Args {
    /// Whether `-x` was given.
    pub fn has(&self, short: char) -> bool {
        self.given.iter().any(|(flag, _)| flag.short == Some(short))
    }

    /// Whether `--xyz` was given.
    pub fn has_long(&self, long: &str) -> bool {
        self.given.iter().any(|(flag, _)| flag.long == Some(long))
    }

    /// The last value of `-x`.
    pub fn value(&self, short: char) -> Option<&str> {
        self.values(short).last()
    }

    /// All values of `-x`.
    pub fn values(&self, short: char) -> impl Iterator<Item = &str> + '_ {
        let of_flag = move |(flag, _): &&(Flag, Option<String>)| flag.short == Some(short);
        self.given.iter().filter(of_flag).filter_map(|(_, value)| value.as_deref())
    }

    /// All values of `--xyz`.
    pub fn long_values(&self, long: &str) -> impl Iterator<Item = &str> {
        let of_flag = move |(flag, _): &&(Flag, Option<String>)| flag.long == Some(long);
        self.given.iter().filter(of_flag).filter_map(|(_, value)| value.as_deref())
    }

    /// Values and switches in the order typed.
    pub fn in_order(&self) -> impl Iterator<Item = (char, &str)> + '_ {
        self.given.iter().filter_map(|(flag, value)| Some((flag.short?, value.as_deref()?)))
    }
}

#[cfg(test)]
mod tests;
