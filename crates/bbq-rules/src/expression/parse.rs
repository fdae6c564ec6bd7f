//! Reads an expression: operators by their precedence, and what is known of the types of their operands.

use super::functions;
use super::limits::DEPTH_MAX;
use super::mistake::Mistake;
use super::node::{Comparison, Constant, Node, Operation, Rare};
use super::operand::{Kind, Read, too_deep};
use super::token::{Token, tokens};
use crate::facts::{Name, Scope};

/// Reads a whole expression.
pub(super) fn root(text: &str, scope: &Scope) -> Result<Node, Mistake> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, scope, depth: 0 };
    if parser.peek() == &Token::End {
        return Err(parser.wrong("the expression is empty; write a condition such as severity <= 4"));
    }
    let root = parser.condition()?;
    if parser.peek() != &Token::End {
        return Err(parser.wrong("the expression goes on where it should end; is an operator missing?"));
    }
    root.must_be(Kind::Bool, "the whole expression")?;
    Ok(root.node)
}

pub(super) struct Parser<'a> {
    tokens: Vec<(Token, usize)>,
    next: usize,
    pub(super) scope: &'a Scope,
    /// How many brackets and signs are open.
    depth: u32,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.next).map_or(&Token::End, |(token, _)| token)
    }

    pub(super) fn at(&self) -> usize {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(0, |(_, at)| *at)
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn wrong(&self, problem: impl Into<String>) -> Mistake {
        Mistake { at: self.at(), problem: problem.into() }
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let is_there = matches!(self.peek(), Token::Sign(found) if *found == sign);
        self.next += usize::from(is_there);
        is_there
    }

    /// Takes one of these operators.
    fn take_one<T: Copy>(&mut self, signs: &[(&str, T)]) -> Option<T> {
        signs.iter().find(|(sign, _)| self.take_sign(sign)).map(|(_, meaning)| *meaning)
    }

    fn expect(&mut self, sign: &str) -> Result<(), Mistake> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.wrong(format!("here {sign:?} is missing"))) }
    }

    /// `a ? b : c`, and all that binds more.
    pub(super) fn condition(&mut self) -> Result<Read, Mistake> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_deep(self.at()));
        }
        let condition = self.or()?;
        let read = if self.take_sign("?") {
            condition.must_be(Kind::Bool, "the condition of ?:")?;
            let then = self.or()?;
            self.expect(":")?;
            let otherwise = self.condition()?;
            let kind = if then.kind == otherwise.kind { then.kind } else { Kind::Any };
            let depths = [condition.depth, then.depth, otherwise.depth];
            let node = Rare::If([condition.node, then.node, otherwise.node]);
            Read::above(Node::Rare(Box::new(node)), kind, condition.at, &depths)?
        } else {
            condition
        };
        self.depth -= 1;
        Ok(read)
    }

    fn or(&mut self) -> Result<Read, Mistake> {
        self.chain("||", Parser::and, Node::Or)
    }

    fn and(&mut self) -> Result<Read, Mistake> {
        self.chain("&&", Parser::relation, Node::And)
    }

    fn chain(
        &mut self,
        sign: &str,
        operand: fn(&mut Self) -> Result<Read, Mistake>,
        node: fn(Vec<Node>) -> Node,
    ) -> Result<Read, Mistake> {
        let first = operand(self)?;
        if !matches!(self.peek(), Token::Sign(found) if *found == sign) {
            return Ok(first);
        }
        let at = first.at;
        first.must_be(Kind::Bool, sign)?;
        let (mut nodes, mut depths) = (vec![first.node], vec![first.depth]);
        while self.take_sign(sign) {
            let next = operand(self)?;
            next.must_be(Kind::Bool, sign)?;
            nodes.push(next.node);
            depths.push(next.depth);
        }
        Read::above(node(nodes), Kind::Bool, at, &depths)
    }

    fn relation(&mut self) -> Result<Read, Mistake> {
        let mut left = self.sum()?;
        loop {
            if matches!(self.peek(), Token::Name(word) if word == "in") {
                self.next += 1;
                left = self.is_in(left)?;
                continue;
            }
            let at = self.at();
            let Some(comparison) = self.take_one(&Comparison::ALL) else { return Ok(left) };
            let right = self.sum()?;
            left = compared(comparison, left, right, at)?;
        }
    }

    /// What stands behind `in`: a list that is written there, or a value.
    fn is_in(&mut self, left: Read) -> Result<Read, Mistake> {
        let (at, depth) = (left.at, left.depth);
        if !self.take_sign("[") {
            let place = self.sum()?;
            if !place.kind.may_be(Kind::Table) {
                return Err(Mistake {
                    at: place.at,
                    problem: format!("this is {}; write a list such as [\"a\", \"b\"]", place.kind.word()),
                });
            }
            let depths = [depth, place.depth];
            let node = Node::InTable(Box::new(left.node), Box::new(place.node));
            return Read::above(node, Kind::Bool, at, &depths);
        }
        let (mut elements, mut depths) = (Vec::new(), vec![depth]);
        while !self.take_sign("]") {
            let element = self.condition()?;
            if !element.kind.may_be(left.kind) {
                return Err(Mistake {
                    at: element.at,
                    problem: format!("{} is never {}", left.kind.word(), element.kind.word()),
                });
            }
            elements.push(element.node);
            depths.push(element.depth);
            if !self.take_sign(",") {
                self.expect("]")?;
                break;
            }
        }
        Read::above(Node::In(Box::new(left.node), elements), Kind::Bool, at, &depths)
    }

    fn sum(&mut self) -> Result<Read, Mistake> {
        self.calculation(&Operation::ALL[..2], Parser::product)
    }

    fn product(&mut self) -> Result<Read, Mistake> {
        self.calculation(&Operation::ALL[2..], Parser::unary)
    }

    fn calculation(
        &mut self,
        signs: &[(&str, Operation)],
        operand: fn(&mut Self) -> Result<Read, Mistake>,
    ) -> Result<Read, Mistake> {
        let mut left = operand(self)?;
        loop {
            let at = self.at();
            let Some(operation) = self.take_one(signs) else { return Ok(left) };
            let right = operand(self)?;
            let wanted = match (operation, left.kind, right.kind) {
                (Operation::Add, Kind::Text, _) | (Operation::Add, Kind::Any, Kind::Text) => Kind::Text,
                _ => Kind::Number,
            };
            left.must_be(wanted, "this operator")?;
            right.must_be(wanted, "this operator")?;
            let kind = match (left.kind, right.kind) {
                (a, b) if a == b => a,
                _ => Kind::Any,
            };
            let depths = [left.depth, right.depth];
            let node = Node::Rare(Box::new(Rare::Arithmetic(operation, left.node, right.node)));
            let begins = left.at.min(at);
            left = Read::above(node, kind, begins, &depths)?;
        }
    }

    fn unary(&mut self) -> Result<Read, Mistake> {
        let at = self.at();
        if self.take_sign("!") {
            let operand = self.nested(Parser::unary)?;
            operand.must_be(Kind::Bool, "\"!\"")?;
            return Read::above(Node::Not(Box::new(operand.node)), Kind::Bool, at, &[operand.depth]);
        }
        if !self.take_sign("-") {
            return self.member();
        }
        if let Token::Int(int) = *self.peek() {
            self.next += 1;
            let int = 0i64.checked_sub_unsigned(int).ok_or_else(|| Mistake {
                at,
                problem: "this integer does not fit into 64 bits".to_owned(),
            })?;
            return Ok(Read::leaf(Node::Constant(Constant::Int(int)), Kind::Int, at));
        }
        let operand = self.nested(Parser::unary)?;
        operand.must_be(Kind::Number, "the sign")?;
        let node = match operand.node {
            Node::Constant(Constant::Double(double)) => Node::Constant(Constant::Double(-double)),
            node => Node::Rare(Box::new(Rare::Negative(node))),
        };
        Read::above(node, operand.kind, at, &[operand.depth])
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Read, Mistake>) -> Result<Read, Mistake> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_deep(self.at()));
        }
        let found = read(self)?;
        self.depth -= 1;
        Ok(found)
    }

    /// A value with fields, indices and methods behind it.
    fn member(&mut self) -> Result<Read, Mistake> {
        let mut left = self.primary()?;
        loop {
            if self.take_sign(".") {
                let at = self.at();
                let Token::Name(word) = self.take() else {
                    return Err(Mistake {
                        at,
                        problem: "the name of a field is missing behind the point".to_owned(),
                    });
                };
                left = if self.take_sign("(") {
                    let arguments = self.arguments(Some(left))?;
                    self.called(&word, arguments, true, at)?
                } else {
                    field(left, word)?
                };
            } else if self.take_sign("[") {
                let index = self.condition()?;
                self.expect("]")?;
                left = indexed(left, index)?;
            } else {
                return Ok(left);
            }
        }
    }

    /// The arguments up to the closing bracket, behind the text that a method belongs to.
    fn arguments(&mut self, target: Option<Read>) -> Result<Vec<Read>, Mistake> {
        let mut arguments: Vec<Read> = target.into_iter().collect();
        while !self.take_sign(")") {
            arguments.push(self.condition()?);
            if !self.take_sign(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(arguments)
    }

    fn called(
        &mut self,
        word: &str,
        arguments: Vec<Read>,
        is_method: bool,
        at: usize,
    ) -> Result<Read, Mistake> {
        let begins = arguments.first().filter(|_| is_method).map_or(at, |target| target.at);
        let depths: Vec<u32> = arguments.iter().map(|argument| argument.depth).collect();
        let (node, kind) = functions::call(word, arguments, is_method, at)?;
        Read::above(node, kind, begins, &depths)
    }

    fn primary(&mut self) -> Result<Read, Mistake> {
        let at = self.at();
        let constant = |constant, kind| Ok(Read::leaf(Node::Constant(constant), kind, at));
        match self.take() {
            Token::Int(int) => match i64::try_from(int) {
                Ok(int) => constant(Constant::Int(int), Kind::Int),
                Err(_) => Err(Mistake { at, problem: "this integer does not fit into 64 bits".to_owned() }),
            },
            Token::Uint(uint) => constant(Constant::Uint(uint), Kind::Number),
            Token::Double(double) => constant(Constant::Double(double), Kind::Number),
            Token::Text(text) => constant(Constant::Text(text), Kind::Text),
            Token::Sign("(") => {
                let inner = self.condition()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Sign("[") => {
                Err(Mistake { at, problem: "a list can only stand behind \"in\"".to_owned() })
            }
            Token::Sign("{") => Err(Mistake { at, problem: "literals of maps are not supported".to_owned() }),
            Token::Name(word) => self.named(&word, at),
            Token::Sign(_) | Token::End => Err(Mistake { at, problem: "a value is missing here".to_owned() }),
        }
    }

    fn named(&mut self, word: &str, at: usize) -> Result<Read, Mistake> {
        let constant = |constant, kind| Ok(Read::leaf(Node::Constant(constant), kind, at));
        match word {
            "true" => return constant(Constant::Bool(true), Kind::Bool),
            "false" => return constant(Constant::Bool(false), Kind::Bool),
            "null" => return constant(Constant::Null, Kind::Null),
            _ => {}
        }
        if self.take_sign("(") {
            let arguments = self.arguments(None)?;
            return self.called(word, arguments, false, at);
        }
        let name = self.scope.name(word).map_err(|problem| Mistake { at, problem })?;
        Ok(Read::leaf(Node::Name(name), kind_of(name), at))
    }
}

fn kind_of(name: Name) -> Kind {
    if name.is_int() {
        Kind::Int
    } else if name.is_table() {
        Kind::Table
    } else if name == Name::Body {
        Kind::Any
    } else {
        Kind::Text
    }
}

fn compared(comparison: Comparison, left: Read, right: Read, at: usize) -> Result<Read, Mistake> {
    let is_with_null = [left.kind, right.kind].contains(&Kind::Null);
    let is_equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
    let is_possible = left.kind.may_be(right.kind) || (is_with_null && is_equality);
    let is_ordered = !is_with_null && ![left.kind, right.kind].contains(&Kind::Table);
    if !is_possible || (!is_equality && !is_ordered) {
        let problem = format!("{} does not compare with {}", left.kind.word(), right.kind.word());
        return Err(Mistake { at, problem });
    }
    let (begins, depths) = (left.at, [left.depth, right.depth]);
    let node = match (left.node, right.node) {
        (Node::Name(name), Node::Constant(Constant::Int(int))) if name.is_int() => {
            Node::CompareInt(comparison, name, int)
        }
        (Node::Constant(Constant::Int(int)), Node::Name(name)) if name.is_int() => {
            Node::CompareInt(comparison.exchanged(), name, int)
        }
        (left, right) => Node::Compare(comparison, Box::new(left), Box::new(right)),
    };
    Read::above(node, Kind::Bool, begins, &depths)
}

/// The values of `fields` are texts, and most of their names have points: `fields.k8s.pod.name` is one field.
fn field(left: Read, key: String) -> Result<Read, Mistake> {
    if let Node::Field(table, first) = &left.node
        && matches!(**table, Node::Name(Name::Fields))
    {
        let node = Node::Field(table.clone(), format!("{first}.{key}"));
        return Ok(Read { node, ..left });
    }
    left.must_be(Kind::Table, "a field")?;
    let (at, depth) = (left.at, left.depth);
    Read::above(Node::Field(Box::new(left.node), key), Kind::Any, at, &[depth])
}

fn indexed(left: Read, index: Read) -> Result<Read, Mistake> {
    left.must_be(Kind::Table, "an index")?;
    let (at, depths) = (left.at, [left.depth, index.depth]);
    if let Node::Constant(Constant::Text(key)) = index.node {
        return field(left, key);
    }
    let node = Node::Rare(Box::new(Rare::Index(left.node, index.node)));
    Read::above(node, Kind::Any, at, &depths)
}
