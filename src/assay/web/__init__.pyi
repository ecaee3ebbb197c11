from assay.web.server import make_app as make_app
from assay.web.server import serve as serve
