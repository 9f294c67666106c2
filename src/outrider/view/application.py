"""The web application: its routes and their handlers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import duckdb
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from tokenizers import Tokenizer

import outrider
from outrider.errors import UserError
from outrider.report.comparing.settings import differing_settings
from outrider.report.content import Figure
from outrider.report.plot_data import has_data, plot_data, slots
from outrider.report.safe_text import in_script, visible
from outrider.runs.tokenizer import Locate, tokenizer_of
from outrider.view.difference import difference
from outrider.view.export import exported
from outrider.view.findings import EVIDENCE, Findings
from outrider.view.listing import choices, listing
from outrider.view.opened_run import OpenedRun, Row
from outrider.view.overview import budget, curves, facts, tokens_by_step
from outrider.view.pass_at_k import before_after
from outrider.view.problem import elsewhere, problem_history
from outrider.view.problem_chart import pass_rates
from outrider.view.problem_filter import ORDERS, ProblemFilter
from outrider.view.problems import problems
from outrider.view.prompts import prompts_of
from outrider.view.rendered import rendered
from outrider.view.rollout import branchings, find, group_of, shown
from outrider.view.rollout_filter import RANGES, SORTS, RolloutFilter
from outrider.view.security import Guard
from outrider.view.several import curves_together, names_of, problems_apart
from outrider.view.templates import static_file, templates
from outrider.view.tokens import ShownToken, analysed_policy
from outrider.view.tree import drawn


class Application:
    """The web pages of a set of runs.

    Args:
        runs: runs to show.
        locate: function that finds a model's tokenizer by the model's name.
    """

    def __init__(self, runs: Sequence[OpenedRun], locate: Locate) -> None:
        self.runs = list(runs)
        self.findings = [Findings(run) for run in runs]
        self._locate = locate
        self._tokenizers: dict[int, Tokenizer | None] = {}
        self._pages = templates()

    def app(self, token: str = "") -> Starlette:
        """Return the ASGI application."""
        of_run = {
            "": self.overview,
            "rollouts": self.rollouts,
            "rollout": self.rollout,
            "pair": self.pair,
            "problems": self.problems,
            "problem": self.problem,
            "findings": self.found,
            "version": self.version,
            "export": self.export,
        }
        routes = [
            Route("/", self.first),
            Route("/static/{name}", self.static),
            *(Route(f"/run/{{run:int}}/{name}", handler) for name, handler in of_run.items()),
            Route("/{rest:path}", self.missing),
        ]
        handlers: Any = {UserError: self.refused, duckdb.Error: self.unread}
        return Starlette(routes=routes, middleware=[Middleware(Guard, token=token)], exception_handlers=handlers)

    def prepare(self) -> None:
        """Compute the problem list, curves, pass@k and filter values before a page needs them. For a million rollouts,
        this takes a second."""
        for run in self.runs:
            with suppress(duckdb.Error):  # the viewer may have been closed meanwhile
                choices(run), problems(run, ProblemFilter()), before_after(run), curves(run)

    def first(self, request: Request) -> Response:
        if len(self.runs) == 1:
            return RedirectResponse("/run/0/")
        for run in self.runs:
            run.refresh()
        names, over = names_of(self.runs), _over(request)
        figures = [figure for figure in curves_together(self.runs, over) if has_data(figure)]
        return self._page(
            "runs",
            request,
            None,
            names=names,
            each=[facts(run) for run in self.runs],
            differ=differing_settings({name: run.data.config for name, run in zip(names, self.runs, strict=True)}),
            apart=problems_apart(self.runs),
            over=over,
            figures=figures,
            plots=_plots(figures, names),
        )

    def overview(self, request: Request) -> Response:
        run, over = self._run(request), _over(request)
        figures = [figure for figure in curves(run, over) if has_data(figure)]
        return self._page(
            "overview",
            request,
            run,
            facts=facts(run),
            budget=budget(run),
            measured=before_after(run),
            over=over,
            places=in_script([[tokens, step] for step, tokens in tokens_by_step(run).items()]),
            figures=figures,
            plots=_plots(figures),
        )

    def rollouts(self, request: Request) -> Response:
        run, chosen = self._run(request), RolloutFilter.of(request.query_params)
        found = listing(run, chosen)
        return self._page(
            "rollouts", request, run, chosen=chosen, found=found, choices=choices(run), ranges=RANGES, sorts=SORTS
        )

    def rollout(self, request: Request) -> Response:
        run = self._run(request)
        row = _named(run, request)
        of = shown(run, row, self._tokenizer(request.path_params["run"]))
        group = group_of(run, row)
        data = {
            "tokens": [_numbers(token) for token in of.tokens],
            "observed": of.observed,
            "branches": [[branch.at, *_label(branch.row)] for branch in branchings(row, group)],
        }
        read = [(part.role, _read(part.text)) for part in of.turns] or [("", _read(of.row.get("text") or ""))]
        return self._page(
            "rollout",
            request,
            run,
            of=of,
            group=group,
            tree=drawn(group),
            tokens=in_script(data),
            read=read,
            analysed=analysed_policy(run) if any(token.analysed for token in of.tokens) else "",
            trained=any(token.trained for token in of.tokens),
            clips=any(token.trained and token.trained.clipped is not None for token in of.tokens),
        )

    def pair(self, request: Request) -> Response:
        """Show two rollouts side by side."""
        run = self._run(request)
        tokenizer = self._tokenizer(request.path_params["run"])
        both = [shown(run, _named(run, request, name), tokenizer) for name in ("id", "other")]
        texts = [one.prefix + (one.row.get("text") or "") for one in both]
        return self._page("pair", request, run, both=both, sides=difference(*texts))

    def problems(self, request: Request) -> Response:
        run, chosen = self._run(request), ProblemFilter.of(request.query_params)
        found = problems(run, chosen)
        listed = [row["problem_id"] for row in found.rows]
        prompts = prompts_of(run, listed, self._tokenizer(request.path_params["run"]))
        return self._page("problems", request, run, chosen=chosen, found=found, orders=ORDERS, prompts=prompts)

    def problem(self, request: Request) -> Response:
        run = self._run(request)
        history = problem_history(run, request.query_params.get("id", ""))
        prompt = prompts_of(run, [history.id], self._tokenizer(request.path_params["run"])).get(history.id)
        others = [
            (at, name, elsewhere(other, history.id))
            for at, (name, other) in enumerate(zip(names_of(self.runs), self.runs, strict=True))
            if other is not run
        ]
        figures = [figure for figure in pass_rates(history) if has_data(figure)]
        return self._page(
            "problem",
            request,
            run,
            history=history,
            prompt=prompt.text if prompt else "",
            others=others,
            figures=figures,
            plots=_plots(figures),
        )

    def found(self, request: Request) -> Response:
        """Return only the findings (issues that a check detected), which an open page requests repeatedly."""
        index = request.path_params["run"]
        self._run(request)
        found = self.findings[index].now()
        measured = before_after(self.runs[index])
        return self._page(
            "findings",
            request,
            self.runs[index],
            found=found,
            measured=measured,
            working=self.findings[index].working,
        )

    def version(self, request: Request) -> Response:
        return JSONResponse({"version": self._run(request).version})

    def export(self, request: Request) -> Response:
        asked = dict(request.query_params)
        form = asked.pop("format", "csv")
        return exported(self._run(request), RolloutFilter.of(asked), form)

    def static(self, request: Request) -> Response:
        return static_file(request.path_params["name"])

    def missing(self, request: Request) -> Response:
        return self._page("error", request, None, status=404, sentence=f"There is no page {request.url.path}.")

    def refused(self, request: Request, error: Exception) -> Response:
        return self._page("error", request, None, status=400, sentence=str(error))

    def unread(self, request: Request, error: Exception) -> Response:
        """Show an error that DuckDB raised while reading rollouts: a file is damaged, or was moved when the run was
        resumed."""
        sentence = f"The rollouts could not be read: {str(error).splitlines()[0]}"
        return self._page("error", request, None, status=500, sentence=sentence)

    def _run(self, request: Request) -> OpenedRun:
        index: int = request.path_params["run"]
        if index >= len(self.runs):
            raise UserError(f"run {index} does not exist; the last is {len(self.runs) - 1}")
        run = self.runs[index]
        run.refresh()
        return run

    def _tokenizer(self, index: int) -> Tokenizer | None:
        """Return the tokenizer of a run. If an earlier search for the tokenizer failed, search again."""
        if self._tokenizers.get(index) is None:
            run = self.runs[index]
            self._tokenizers[index] = tokenizer_of(run.path, run.data.config.get("model"), self._locate)
        return self._tokenizers[index]

    def _page(self, name: str, request: Request, run: OpenedRun | None, status: int = 200, **values: Any) -> Response:
        index = request.path_params.get("run", 0)
        html = self._pages.get_template(f"{name}.html").render(
            run=run, index=index, runs=self.runs, here=name, version=outrider.__version__, evidence=EVIDENCE, **values
        )
        # responses may contain lone surrogates, which UTF-8 cannot encode
        return HTMLResponse(html.encode("utf-8", "replace"), status)


def _named(run: OpenedRun, request: Request, name: str = "id") -> Row:
    """Return the rollout that the request's parameter ``name`` identifies."""
    asked = request.query_params
    group, _, member = asked.get(name, "").rpartition("/")
    if not member.isdecimal() or not asked.get("step", "").isdecimal():
        raise UserError(f"a rollout needs split, step and {name}, as in ?split=train&step=3&{name}=GROUP/0")
    return find(run, asked.get("split", "train"), int(asked["step"]), group, int(member))


def _over(request: Request) -> str:
    """Return the x axis of the curves, ``step`` or ``tokens``.

    Raises:
        UserError: the request names another axis.
    """
    over = request.query_params.get("over") or "step"
    if over not in ("step", "tokens"):
        raise UserError(f"over is {over!r}, but should be step or tokens")
    return over


def _numbers(token: ShownToken) -> list[Any]:
    """Return a token's numbers in the format that tokens.js expects."""
    numbers = (_short(value) for value in (token.logprob, token.entropy, token.advantage))
    of = token.analysed
    other = of and [of.alternative, of.logprob, _short(of.ratio)]
    trained = token.trained and [_short(token.trained.ratio), token.trained.clipped]
    return [token.text, token.id, int(token.sampled), *numbers, other, trained]


def _label(row: Row) -> tuple[str, str]:
    """Return a rollout's index in its group, and the rollout's outcome, for tokens.js."""
    return str(row["member"]), row["outcome"] or "not verified"


def _read(text: str) -> Markup:
    """Render the Markdown and the formulas of a text; return plain text if the extra for rendering is not installed."""
    try:
        return rendered(text)
    except ModuleNotFoundError:
        return Markup("<pre>{}</pre>").format(visible(text))


def _plots(figures: Sequence[Figure], first: Sequence[str] = ()) -> Markup:
    """Return the data for plots.js. Curves named in ``first`` get the first colours."""
    colours = slots(figures, first)
    return in_script({figure.id: plot_data(figure, of) for figure, of in zip(figures, colours, strict=True)})


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
