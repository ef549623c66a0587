"""axe-core on what the course puts on the page: rendered text, outputs, widgets; JupyterLab's frame
is not ours."""

from axe_playwright_python.sync_playwright import Axe

__all__ = ["serious_findings", "serious_in"]

_OURS = [".jp-RenderedMarkdown", ".jp-RenderedHTMLCommon", ".course-widget"]
_LABS_OWN = [".jp-InternalAnchorLink", ".cm-editor"]


def serious_findings(page):
    """Return the serious and critical findings in the course's own elements, one line each."""
    present = [[selector] for selector in _OURS if page.locator(selector).count()]
    if not present:
        return []
    context = {"include": present, "exclude": [[selector] for selector in _LABS_OWN]}
    return serious_in(
        Axe().run(page, context=context, options={"resultTypes": ["violations"]}).response
    )


def serious_in(response):
    """Return the serious and critical findings of one of axe's responses, one line each."""
    return [
        f"{violation['id']} ({violation['impact']}): {violation['help']}: {node['html'][:160]}"
        for violation in response["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
