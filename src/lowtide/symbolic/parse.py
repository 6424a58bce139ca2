"""Read an expression from text, by recursive descent over a small grammar.

    sum      := ['-'] product (('+' | '-') product)*
    product  := power (('*' | '//' | '%') power)*
    power    := primary [('^' | '**') integer]
    primary  := integer | name | '(' sum ')' | call
    call     := ('floor' | 'ceil') '(' ratio ')' | 'mod' '(' sum ',' sum ')' | ('max' | 'min') '(' sum (',' sum)* ')'
    ratio    := sum | ['-'] product '/' power

Nothing is evaluated as code, and nesting is bounded, so untrusted text is safe to read.
"""

import re
from typing import NoReturn

from lowtide.symbolic.atoms import RESERVED_NAMES
from lowtide.symbolic.errors import ParseError
from lowtide.symbolic.expression import Expr, ceil_div, const, dim, floor_div, maximum, minimum, mod

NESTING_LIMIT = 100
POWER_LIMIT = 64
DIGIT_LIMIT = 1000

_TOKEN = re.compile(r"\s*(?:([0-9]+)|([^\W\d]\w*)|(\*\*|//|[-+*/%^(),]))")


def parse(text: str) -> Expr:
    """Return the expression that a text denotes.

    Args:
        text: An expression as `render` prints it; `//`, `%`, `ceil`, `mod` and `min` are understood as well.

    Raises:
        ParseError: If the text is no expression; it names the first character that does not fit.

    Example:
        >>> parse("ceil(seq/2) + max(seq, 8)")
        Expr('seq - floor(seq/2) + max(seq, 8)')
    """
    return _Parser(text).parse_all()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, int]] = []
        self.next = 0
        self.depth = 0
        self.last_sum_is_product = True
        position = 0
        end = len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise ParseError(text, position, "a number, a name, an operator or a parenthesis")
            token = match.group(match.lastindex or 0)
            self.tokens.append((token, match.end() - len(token)))
            position = match.end()

    def parse_all(self) -> Expr:
        result = self.sum()
        if self.next < len(self.tokens):
            self.fail("an operator or the end")
        return result

    def peek(self) -> str:
        return self.tokens[self.next][0] if self.next < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        token = self.peek()
        if token and token in wanted:
            self.next += 1
            return token
        return ""

    def expect(self, wanted: str) -> None:
        if not self.take(wanted):
            self.fail(f"'{wanted}'")

    def fail(self, expected: str) -> NoReturn:
        position = self.tokens[self.next][1] if self.next < len(self.tokens) else len(self.text)
        raise ParseError(self.text, position, expected)

    def sum(self) -> Expr:
        self.depth += 1
        if self.depth > NESTING_LIMIT:
            self.fail(f"at most {NESTING_LIMIT} nested parentheses")
        result = -self.product() if self.take("-") else self.product()
        single = True
        while operator := self.take("+", "-"):
            single = False
            right = self.product()
            result = result + right if operator == "+" else result - right
        self.depth -= 1
        self.last_sum_is_product = single
        return result

    def product(self) -> Expr:
        result = self.power()
        while operator := self.take("*", "//", "%"):
            position = self.next
            right = self.power()
            if operator == "*":
                result = result * right
            elif right == 0:
                self.next = position
                self.fail("a divisor that is not zero")
            else:
                result = floor_div(result, right) if operator == "//" else mod(result, right)
        return result

    def power(self) -> Expr:
        base = self.primary()
        if not self.take("^", "**"):
            return base
        token = self.peek()
        if not token.isdecimal() or len(token) > 3 or int(token) > POWER_LIMIT:
            self.fail(f"an exponent from 0 to {POWER_LIMIT}")
        self.next += 1
        return base ** int(token)

    def primary(self) -> Expr:
        token = self.peek()
        if token.isdecimal():
            if len(token) > DIGIT_LIMIT:
                self.fail(f"at most {DIGIT_LIMIT} digits")
            self.next += 1
            return const(int(token))
        if self.take("("):
            result = self.sum()
            self.expect(")")
            return result
        if token in RESERVED_NAMES:
            self.next += 1
            return self.call(token)
        if token and (token[0] == "_" or token[0].isalpha()):
            try:
                variable = dim(token)
            except ValueError:
                self.fail("the name of a dimension variable")
            self.next += 1
            return variable
        self.fail("a number, a name or '('")

    def call(self, function: str) -> Expr:
        self.expect("(")
        arguments = [self.sum()]
        if function in ("floor", "ceil"):
            if self.peek() == "/":
                if not self.last_sum_is_product:
                    self.fail("')', or parentheses around the sum before '/'")
                self.next += 1
                position = self.next
                denominator = self.power()
                if denominator == 0:
                    self.next = position
                    self.fail("a divisor that is not zero")
                arguments[0] = (floor_div if function == "floor" else ceil_div)(arguments[0], denominator)
            self.expect(")")
            return arguments[0]
        while self.take(","):
            arguments.append(self.sum())
        if function == "mod" and len(arguments) != 2:
            self.fail("two arguments of mod")
        self.expect(")")
        if function == "mod":
            if arguments[1] == 0:
                self.fail("a modulus that is not zero")
            return mod(*arguments)
        return (maximum if function == "max" else minimum)(*arguments)
