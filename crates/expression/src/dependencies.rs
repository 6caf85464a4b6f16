//! The paths that an expression reads, as far as they are known statically.

use minijinja::machinery::ast::{CallArg, Expr, Filter, UnaryOpKind};
use minijinja::machinery::parse_expr;
use value::Key;

use super::filters::{self, BY};
use super::program::NULL;

/// A path that an expression reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The leading names: `["steps", "createPage", "results", "id"]`. Empty if the expression reads the whole scope.
    pub path: Box<[Key]>,
    /// The links after the leading names, up to the first dynamic one.
    pub suffix: Vec<Link>,
    /// True if the expression handles absence (`default`, `is defined`, a query with an empty result).
    pub optional: bool,
}

/// A link of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// A member by its name.
    Name(Key),
    /// One item of a list.
    Item,
    /// Every item of a list, or every value of a map.
    Every,
}

/// The path whose value is the value of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectPath<'e> {
    /// The value at this path.
    One(&'e Reference),
    /// The list of all values that match this path.
    Every(&'e Reference),
}

impl Reference {
    /// Creates a reference from links: the leading names, and the rest.
    pub(super) fn new(links: Vec<Link>, optional: bool) -> Self {
        let name = |link: &Link| if let Link::Name(name) = link { Some(name.clone()) } else { None };
        let path: Box<[Key]> = links.iter().map_while(name).collect();
        let suffix = links[path.len()..].to_vec();
        Self { path, suffix, optional }
    }

    /// The path without its last link, and that link; `None` for the whole scope.
    pub fn split_last(&self) -> Option<(Self, Link)> {
        let mut links: Vec<Link> = self.links().collect();
        let last = links.pop()?;
        Some((Self::new(links, self.optional), last))
    }

    /// All links of the path.
    pub fn links(&self) -> impl Iterator<Item = Link> + '_ {
        self.path.iter().cloned().map(Link::Name).chain(self.suffix.iter().cloned())
    }
}

/// The name that an expression argument of a filter gives to each item.
pub(super) const ITEM: &str = "item";

/// The meaning of the name `item` at a place of an expression.
#[derive(Clone, Debug, Default)]
pub(super) enum Item {
    /// A name of the scope, such as the item of a loop.
    #[default]
    OfScope,
    /// An item of the list that a filter is applied to, with the path of the items if it is known.
    OfList(Option<Vec<Link>>),
}

impl Item {
    /// The meaning in the expression arguments of a filter; `None` for a filter without such.
    pub(super) fn inside(&self, filter: &Filter<'_>) -> Option<Self> {
        let takes = |argument: &CallArg<'_>| matches!(argument, CallArg::Kwarg(name, _) if filters::takes_expression(filter.name, name));
        let subject = filter.expr.as_ref().filter(|_| filter.args.iter().any(takes))?;
        Some(Self::OfList(item_path(subject, self)))
    }
}

/// Filters whose result is an item of the input list.
const ITEM_FILTERS: [&str; 5] = ["first", "last", "min", "max", "random"];
/// Filters whose result is the input list with fewer items or in another order.
const LIST_FILTERS: [&str; 9] =
    ["list", "sort", "reverse", "unique", "select", "reject", "selectattr", "rejectattr", "takeWhile"];
/// Filters that read an attribute of every item of the input list.
const ATTRIBUTE_FILTERS: [&str; 9] =
    ["map", "sort", "unique", "groupby", "selectattr", "rejectattr", "min", "max", "sum"];

/// The path whose value is the value of `expr`; `None` if `expr` computes anything.
pub(super) fn direct_path(expr: &Expr<'_>, item: &Item) -> Option<Vec<Link>> {
    Some(match expr {
        Expr::Var(var) if var.id == NULL => return None,
        Expr::Var(var) => match item {
            Item::OfList(path) if var.id == ITEM => return path.clone(),
            _ => vec![Link::Name(var.id.into())],
        },
        Expr::GetAttr(link) => append(direct_path(&link.expr, item)?, Link::Name(link.name.into())),
        Expr::GetItem(link) => append(direct_path(&link.expr, item)?, subscript(&link.subscript_expr)?),
        Expr::Filter(filter) => {
            let list = filter.expr.as_ref()?;
            match filter.name {
                name if ITEM_FILTERS.contains(&name) => match direct_path(list, item) {
                    Some(list) => append(list, Link::Item),
                    None => item_path(list, item)?,
                },
                name if LIST_FILTERS.contains(&name) => direct_path(list, item)?,
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// The path of each item of the list that `list` returns; `None` if the items are computed.
pub(super) fn item_path(list: &Expr<'_>, item: &Item) -> Option<Vec<Link>> {
    if let Expr::Filter(filter) = list {
        let subject = filter.expr.as_ref()?;
        match filter.name {
            "map" => {
                if let Some(by) = argument(filter, BY) {
                    return direct_path(by, &item.inside(filter)?);
                }
                return attribute(filter, item);
            }
            "flatten" => return Some(append(item_path(subject, item)?, Link::Every)),
            name if LIST_FILTERS.contains(&name) => return item_path(subject, item),
            _ => {}
        }
    }
    Some(append(direct_path(list, item)?, Link::Every))
}

/// The path of each item of the list that an expression returns, if it is a list of the values at a path.
pub(super) fn find_item_path(text: &str) -> Option<Reference> {
    let parsed = parse_expr(text).ok()?;
    let is_list = matches!(&parsed, Expr::Filter(filter) if matches!(filter.name, "map" | "flatten") || LIST_FILTERS.contains(&filter.name));
    item_path(&parsed, &Item::default()).filter(|_| is_list).map(|links| Reference::new(links, false))
}

/// The argument of this name.
pub(super) fn argument<'f>(filter: &'f Filter<'_>, name: &str) -> Option<&'f Expr<'f>> {
    filter.args.iter().find_map(|argument| match argument {
        CallArg::Kwarg(known, expr) if *known == name => Some(expr),
        _ => None,
    })
}

/// The link of a literal subscript; `None` for a dynamic one.
pub(super) fn subscript(expr: &Expr<'_>) -> Option<Link> {
    match expr {
        Expr::Const(constant) => match constant.value.as_str() {
            Some(name) => Some(Link::Name(name.into())),
            None => constant.value.is_integer().then_some(Link::Item),
        },
        // A negative index: `[-1]`.
        Expr::UnaryOp(op) if matches!(op.op, UnaryOpKind::Neg) => {
            matches!(&op.expr, Expr::Const(constant) if constant.value.is_integer()).then_some(Link::Item)
        }
        _ => None,
    }
}

/// The path of the attribute that a filter reads from every item, such as `| map(attribute='id')`.
pub(super) fn attribute(filter: &Filter<'_>, item: &Item) -> Option<Vec<Link>> {
    if !ATTRIBUTE_FILTERS.contains(&filter.name) {
        return None;
    }
    let positional = ["selectattr", "rejectattr", "groupby"].contains(&filter.name);
    let first = filter.args.first().and_then(|argument| match argument {
        CallArg::Pos(expr) if positional => Some(expr),
        _ => None,
    });
    let Some(Expr::Const(constant)) = argument(filter, "attribute").or(first) else { return None };
    let mut links = item_path(filter.expr.as_ref()?, item)?;
    for part in constant.value.as_str()?.split('.') {
        links.push(if part.parse::<usize>().is_ok() { Link::Item } else { Link::Name(part.into()) });
    }
    Some(links)
}

fn append(mut links: Vec<Link>, link: Link) -> Vec<Link> {
    links.push(link);
    links
}
